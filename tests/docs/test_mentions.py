"""What the documents speak of exists: commands with their flags, scripts, make targets, extras, linked files."""

import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from patchprint import cli
from support.checkout import ROOT
from support.documents import DOCUMENTS, NOT_RUN, blocks, commands, name_of

EVERY_DOCUMENT = pytest.mark.parametrize("file", DOCUMENTS, ids=name_of)


@EVERY_DOCUMENT
def test_commands_can_be_read(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    read = cli._parse

    def read_only(*arguments: Any) -> None:
        read(*arguments)  # and do as if help had been printed: nothing is run

    monkeypatch.setattr(cli, "_parse", read_only)
    for words in commands(file):
        assert cli.main(words) == 0, f"{words}: {capsys.readouterr().err}"


@EVERY_DOCUMENT
def test_scripts_are_there(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    modules = set(re.findall(r"python -m ((?:perf|tools|patchprint)(?:\.[a-z_]+)+)", text))
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []
    paths = set(re.findall(r"\b(?:perf|tools|tests|src)/[\w/.]+\.(?:py|sh)\b", text))
    assert [path for path in paths if "yours" not in path and not (ROOT / path).exists()] == []


@EVERY_DOCUMENT
def test_make_knows_the_targets(file: Path) -> None:
    mentioned = {words[1] for block in blocks(file) for words in block.lines if words[0] == "make"}
    mentioned |= set(re.findall(r"`make ([a-z-]+)", file.read_text(encoding="utf-8")))
    for target in mentioned:
        dry = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
        assert dry.returncode == 0, dry.stderr


@EVERY_DOCUMENT
def test_extras_are_there(file: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    text = file.read_text(encoding="utf-8")
    mentioned = {name for group in re.findall(r"pip install \S*\[([\w,-]+)\]", text) for name in group.split(",")}
    assert mentioned <= set(extras)


@EVERY_DOCUMENT
def test_links_lead_to_files(file: Path) -> None:
    targets = re.findall(r"\]\((?!\w+:)([^)#\s]+)", file.read_text(encoding="utf-8"))
    assert [target for target in targets if not (file.parent / target).exists()] == []


def test_the_index_links_every_page() -> None:
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    pages = {file.relative_to(docs).as_posix() for file in docs.rglob("*.md")} - {"index.md"}
    assert [page for page in sorted(pages) if f"]({page})" not in index] == []


@EVERY_DOCUMENT
def test_commands_stand_in_shell_blocks(file: Path) -> None:
    others = [block.code for block in blocks(file) if block.language not in ("sh", "python")]
    assert [code for code in others if re.search(r"^(\$ )?(patchprint|torchrun|make|pip|python) ", code, re.M)] == []


def test_few_blocks_are_not_run() -> None:
    unrun = [f"{name_of(file)}:{block.line}" for file in DOCUMENTS for block in blocks(file) if block.reason]
    marks = [mark for file in DOCUMENTS for mark in re.findall(rf"^{NOT_RUN}", file.read_text(encoding="utf-8"), re.M)]
    assert len(unrun) == len(marks), "a mark has no block below it"
    assert len(unrun) <= 7
