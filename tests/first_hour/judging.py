"""What a command must have done; each function says what is wrong, "" where nothing is."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from first_hour.hour import Amounts, Step


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def problem_of_step(step: Step, amounts: Amounts, desk: Path, ended: Ended) -> str:
    if step.client and ended.code == 77:
        return ""
    words = amounts.fill(step.says)
    missing = [name for name in step.makes.split() if not (desk / name).exists()]
    return _first(**_unless_done(ended), missing=missing, unsaid=words not in ended.out + ended.err and words)


def problem_of_wrong_command(words: str, desk: Path, before: Mapping[str, tuple[int, int]], ended: Ended) -> str:
    after = everything_below(desk)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return _first(**_unless_refused(ended), changed=changed, unsaid=words not in ended.err and words)


def problem_of_odd_image(name: str, outcome: str, ended: Ended) -> str:
    if outcome == "read" or (outcome == "either" and ended.code == 0):
        return _first(**_unless_done(ended))
    return _first(**_unless_refused(ended), unsaid=name not in ended.err and name)


def everything_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of all files and folders."""
    places = (os.path.join(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files))
    about = {os.path.relpath(path, folder): os.lstat(path) for path in places}
    return {name: (each.st_size, each.st_mtime_ns) for name, each in about.items()}


def _unless_done(ended: Ended) -> dict[str, object]:
    return {"exit_code": ended.code, "traceback": "Traceback" in ended.err}


def _unless_refused(ended: Ended) -> dict[str, object]:
    """Exit code 2 and one sentence."""
    lines = ended.err.count("\n")
    wrong = {"exit_code": ended.code != 2 and f"{ended.code}", "traceback": "Traceback" in ended.err}
    return {**wrong, "on_stdout": ended.out.strip(), "lines": lines != 1 and f"{lines}"}


def _first(**problems: object) -> str:
    return next((f"{name}: {what}" for name, what in problems.items() if what), "")
