"""What ``--help`` shows of every command: names for values, defaults that tell something, all choices, a text for each flag."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import tyro

from patchprint import cli
from patchprint.cli import flags
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


def test_values_are_named_by_what_they_are() -> None:
    def command(
        photo: tyro.conf.Positional[Path],
        /,
        *,
        ratio: float | None = None,
        mode: Literal["a", "b"] = "a",
        camera_model: str = "",
        work: str | Path | None = None,
        sets: tuple[str, ...] = (),
        data: tyro.conf.UseAppendAction[tuple[Path, ...]] = (),
        loud: bool = True,
        named: Annotated[int, tyro.conf.arg(metavar="SECONDS")] = 0,
    ) -> None: ...

    shown = flags.readable(inspect.signature(command, eval_str=True)).parameters
    said = {name: tyro_arg(parameter.annotation) for name, parameter in shown.items()}
    assert {name: each[0] for name, each in said.items()} == {
        "photo": "PHOTO",
        "ratio": "NUMBER",
        "mode": "{a,b}",
        "camera_model": "CAMERA-MODEL",
        "work": "PATH",
        "sets": "SETS ...",
        "data": "PATH",
        "loud": None,
        "named": "SECONDS",
    }
    assert [name for name, each in said.items() if each[1] == ""] == ["ratio", "camera_model", "work", "sets", "loud"]


def tyro_arg(kind: Any) -> tuple[str | None, str | None]:
    """Metavar and hint that tyro ends up with."""
    told = [each for each in kind.__metadata__ if hasattr(each, "metavar")]
    names = [each.metavar for each in told if each.metavar is not None]
    return (names[-1] if names else None), told[0].help_behavior_hint


@pytest.mark.parametrize(
    ("default", "expected"),
    [(None, ""), ((), ""), (0, "(default: 0)"), (True, "(default: yes)"), (False, "(default: no)")],
)
def test_hints(default: object, expected: str) -> None:
    assert flags.hint(default) == expected
