"""Tables of reliability, made from ``results/reliability.json``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tools.markdown import read, table
from tools.reliability import PASSED, REVIEWED

FILE = "reliability.json"


def held(results: Path) -> str:
    """Faults and load."""
    scores = read(results / FILE)["scores"]
    faults, load, total = scores["faults"], scores["load"], scores["damaged_files"]["total"]
    described, trained = load["describe"], load["train"]
    outcome = f"{faults['recovered']:,} recovered, {faults['lost']} lost"
    damage = f"{total['crashes']} crashes, {total['hangs']} hangs, {total['tracebacks']} tracebacks"
    rows = [
        [f"{faults['injected']:,} faults put into writers and long work", outcome],
        [f"{total['cases']:,} damaged files for {len(scores['damaged_files']['readers'])} readers", damage],
        [f"{described['photos']:,} photos described in one run", _memory(described)],
        [f"{trained['minutes']:g} minutes of training, {trained['steps']:,} steps", _memory(trained)],
    ]
    caption = f"`make faults`, `make fuzz` and `make load`, joined by `make reliability`: results/{FILE}."
    return table(["", "outcome"], rows, caption, numbers=False)


def readers(results: Path) -> str:
    """Damaged files by reader."""
    found = read(results / FILE)["scores"]["damaged_files"]["readers"]
    keys = ("cases", "read", "refused", "crashes", "hangs", "tracebacks")
    rows = [
        [name if "date" in counts else f"{name} (by hand)", *(f"{counts[key]:,}" for key in keys)]
        for name, counts in found.items()
    ]
    by_hand = any("date" not in counts for counts in found.values())
    how = ", some counted by hand out of the log of a stopped run" if by_hand else ""
    return table(["reader", *keys], rows, f"Damaged files by reader{how}: results/{FILE}.")


def defects(results: Path) -> str:
    """Each defect of the review with the test that shows it."""
    rows = [[name, told["what"], *_shown_by(told)] for name, told in read(results / FILE)["scores"]["defects"].items()]
    caption = f"All of these tests pass now; at {REVIEWED} they failed as the last column says: results/{FILE}."
    return table(["", "what was wrong", "test", f"at {REVIEWED}"], rows, caption, numbers=False)


def _shown_by(told: dict[str, Any]) -> list[str]:
    """A test that fails at the reviewed commit, and how it failed there."""
    for test, outcome in told["tests"].items():
        if outcome[REVIEWED] != PASSED:
            name = re.sub(r"\[.*", "", test)
            reason = re.sub(r"^\S+: (?:AssertionError: )?", "", outcome[REVIEWED])
            return [f"`{name}`", _short(reason)]
    return ["", ""]


def _short(text: str, most: int = 110) -> str:
    text = text.replace("|", "/").replace("<", "‹").replace("`", "'").replace("*", "·")
    return text if len(text) <= most else f"{text[:most]} …"


def _memory(held: dict[str, Any]) -> str:
    return f"peak {held['peak_mib']:.0f} MiB, growth {held['growth_mib']:.1f} MiB, {held['leaked_handles']} files left open"
