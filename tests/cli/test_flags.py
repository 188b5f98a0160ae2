"""What ``--help`` shows of every command: names for values, defaults that tell something, all choices, a text for each flag."""

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from patchprint import cli
from patchprint.detectors import DETECTORS
from patchprint.features import list_models


def every_command() -> Iterator[str]:
    for name in cli.SUBCOMMANDS:
        module = importlib.import_module(f"patchprint.cli.{name}")
        yield from leaves(name, getattr(module, "main", None) or module.COMMANDS)


def leaves(words: str, command: Any) -> Iterator[str]:
    if isinstance(command, Mapping):
        for word, below in command.items():
            yield from leaves(f"{words} {word}", below)
    else:
        yield words


@pytest.mark.parametrize("words", list(every_command()))
def test_help_speaks_plainly(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert cli.main([*words.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines()[5:])) <= 100
    for unreadable in (r"\bNone\b", r"\b(STR|INT|FLOAT|BOOL)\b", r"\(default: (False|True)?\)"):
        assert not re.search(unreadable, text), text
    rows = [line.strip("│| ") for line in text.splitlines() if line[:1] in "│|"]
    starts = [number for number, row in enumerate(rows) if row.startswith("--")]
    for number in starts:
        told = re.sub(r"^--[\w-]+(, --[\w-]+)?( [\w=|-]+| {.*)?( \.\.\.)?", "", rows[number]).strip()
        following = rows[number + 1] if number + 1 < len(rows) else ""
        assert told or (following and not following.startswith("-")), f"{rows[number]} has no text"
    if "--detector" in text:
        assert all(name in text for name in DETECTORS)
    if "--model" in text:
        assert all(info.name in text for info in list_models() if info.network)


def test_values_are_named_by_what_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["match", "--help"]) == 0
    text = capsys.readouterr().out
    for flag in ("--ratio NUMBER", "--max-keypoints N", "--out PATH", "--detector {", "[OPTIONS] A B"):
        assert flag in text, flag
