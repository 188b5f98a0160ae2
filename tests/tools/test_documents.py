"""What the documents tell people to type exists: commands with their flags, scripts, and names in Python blocks."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchprint import cli

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    file
    for pattern in ("*.md", "docs/*.md", "perf/README.md", "results/README.md")
    for file in ROOT.glob(pattern)
    if file.name != "CHANGELOG.md"
)


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def blocks(file: Path, *languages: str) -> Iterator[str]:
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", file.read_text(encoding="utf-8"), re.M | re.S):
        if language in languages:
            yield block


def commands(file: Path) -> Iterator[list[str]]:
    """The arguments of every ``patchprint ...`` in shell blocks and in tables, without what shells read themselves."""
    lines = [line for block in blocks(file, "", "sh", "bash") for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"\| `(patchprint [^`]+)` \|", file.read_text(encoding="utf-8"))
    for line in lines:
        found = re.search(r"(?:^|-m )patchprint ([a-z].*)", line)
        if found:
            yield shlex.split(found[1].partition(" > ")[0], comments=True)


@pytest.mark.parametrize("file", DOCUMENTS, ids=name_of)
def test_commands_know_their_flags(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands(file):
        flags = [word for word in words if word.startswith("--")]
        before = words[: words.index(flags[0])] if flags else words
        assert cli.main([*before, "--help"]) == 0, words
        known = capsys.readouterr().out
        assert [flag for flag in flags if not re.search(rf"{flag}(?![\w-])", known)] == [], words


@pytest.mark.parametrize("file", DOCUMENTS, ids=name_of)
def test_scripts_are_there(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    modules = set(re.findall(r"python -m ((?:perf|tools|patchprint)(?:\.[a-z_]+)+)", text))
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []
    paths = set(re.findall(r"\b(?:perf|tools|tests|src)/[\w/.]+\.(?:py|sh)\b", text))
    assert [path for path in paths if "yours" not in path and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("file", DOCUMENTS, ids=name_of)
def test_python_blocks_name_what_exists(file: Path) -> None:
    for block in blocks(file, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("patchprint"):
                module = importlib.import_module(str(node.module))
                assert [name.name for name in node.names if not hasattr(module, name.name)] == []
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "patchprint":
                assert hasattr(importlib.import_module("patchprint"), node.attr), node.attr
