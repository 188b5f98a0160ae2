"""What a command must have done; a judge returns what is wrong, "" where nothing is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from first_hour.hour import Amounts, Step
from first_hour.wrong_commands import WrongCommand


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Judge = Callable[[Ended], str]


def of_step(step: Step, amounts: Amounts, desk: Path) -> Judge:
    def judge(ended: Ended) -> str:
        if step.client and ended.code == 77:
            return ""
        missing = [name for name in step.makes.split() if not (desk / name).exists()]
        words = amounts.fill(step.says)
        problems = {
            f"exit code {ended.code}": ended.code != 0,
            f"did not make {' '.join(missing)}": missing,
            f"does not say {words!r}": words not in ended.out + ended.err,
            "a traceback": "Traceback" in ended.err,
        }
        return _first(problems)

    return judge


def of_wrong_command(wrong: WrongCommand, desk: Path, before: dict[str, tuple[int, int]]) -> Judge:
    def judge(ended: Ended) -> str:
        after = everything_below(desk)
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        return _first(
            {
                **_refused(ended),
                f"changed {changed}": changed,
                f"does not say {wrong.words!r}": wrong.words not in ended.err,
            }
        )

    return judge


def of_odd_picture(name: str, outcome: str) -> Judge:
    def judge(ended: Ended) -> str:
        if outcome == "read" or (outcome == "either" and ended.code == 0):
            return _first({f"exit code {ended.code}": ended.code != 0, "a traceback": "Traceback" in ended.err})
        return _first({**_refused(ended), "does not name it": name not in ended.err})

    return judge


def everything_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of all files and folders."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            about = os.lstat(path)
            found[os.path.relpath(path, folder)] = (about.st_size, about.st_mtime_ns)
    return found


def _refused(ended: Ended) -> dict[str, object]:
    """Exit code 2 and one sentence."""
    return {
        f"exit code {ended.code}": ended.code != 2,
        "a traceback": "Traceback" in ended.err,
        "a result on stdout": ended.out.strip(),
        f"{len(ended.err.splitlines())} lines on stderr": ended.err.count("\n") != 1,
    }


def _first(problems: dict[str, object]) -> str:
    return next((words for words, there in problems.items() if there), "")
