"""What ``make fuzz`` counts: crashes and hangs with their seeds at once, and no process that only got no turn."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from nightly import fuzz as nightly

# A worker whose cases are answered, wait long without computing, compute without end, die, are answered, wait for ever.
WORKER = """
import json, os, sys, time
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    if seed == 1:
        time.sleep(0.8)
    while seed == 2:
        pass
    if seed == 3:
        os.abort()
    if seed == 5:
        time.sleep(60)
    print(json.dumps([seed, "refused", "a.npz"]), flush=True)
"""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "SECONDS", 0.3)
    monkeypatch.setattr(nightly, "WORKER", [sys.executable, "-c", WORKER])


def test_a_hang_computes_and_a_crash_ends_and_both_are_reported_at_once(short: None) -> None:
    told: list[list[Any]] = []
    counts = nightly.play(
        "any", range(5), None, lambda counts: told.append([each["seed"] for each in counts["faults"]])
    )
    assert {kind: counts[kind] for kind in nightly.KINDS} == {
        "cases": 5, "read": 0, "refused": 3, "crashes": 1, "hangs": 1, "tracebacks": 0}  # fmt: skip
    assert told == [[2], [2, 3]] and "of which it computed" in counts["faults"][0]["what"]


def test_one_that_waits_for_ever_is_a_hang_as_well(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "LONGEST", 0.4)
    assert nightly.play("any", range(5, 6), None, lambda counts: None)["hangs"] == 1


def test_the_record_keeps_other_readers_and_forgets_those_that_are_gone(tmp_path: Path) -> None:
    counts = {**dict.fromkeys(nightly.KINDS, 1), "faults": []}
    out = tmp_path / "fuzz.json"
    for readers in (["old", "a"], ["a", "b"]):
        for name in readers:
            nightly.Record(out, readers).put(name, counts)
    scores = json.loads(out.read_text())["scores"]
    assert list(scores["readers"]) == ["a", "b"] and scores["total"]["cases"] == 2
