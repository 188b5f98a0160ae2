"""The tables of reliability, from a result of few numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import reliability_tables
from tools.reliability import PASSED, REVIEWED


@pytest.fixture
def results(tmp_path: Path) -> Path:
    counts = {"cases": 1234, "read": 234, "refused": 1000, "crashes": 0, "hangs": 0, "tracebacks": 0}
    held = {"peak_mib": 304.6, "growth_mib": 0.86, "leaked_handles": 0}
    tests = {
        "tests/x.py::test_h1_a[one]": {"now": PASSED, REVIEWED: PASSED},
        "tests/x.py::test_h1_a[two]": {"now": PASSED, REVIEWED: "tests/x.py:5: AssertionError: exit code 0, a | b"},
    }
    scores = {
        "defects": {"H1": {"what": "it was lost", "tests": tests}},
        "faults": {"injected": 2000, "recovered": 2000, "lost": 0},
        "damaged_files": {
            "total": counts,
            "readers": {"weights": {**counts, "date": "2026-11-16T13:15:10Z"}, "hloc": counts},
        },
        "load": {"describe": {"photos": 10_000, **held}, "train": {"minutes": 6.0, "steps": 10303, **held}},
    }
    (tmp_path / "reliability.json").write_text(json.dumps({"scores": scores}))
    return tmp_path


def test_what_was_held(results: Path) -> None:
    lines = reliability_tables.held(results).splitlines()
    assert "| 2,000 faults put into writers and long work | 2,000 recovered, 0 lost |" in lines
    assert "| 10,000 photos described in one run | peak 305 MiB, growth 0.9 MiB, 0 files left open |" in lines


def test_readers(results: Path) -> None:
    told = reliability_tables.readers(results)
    assert "| weights | 1,234 | 234 | 1,000 | 0 | 0 | 0 |" in told
    assert "| hloc (by hand) | 1,234 |" in told and "some counted by hand" in told


def test_a_defect_is_shown_by_the_case_that_failed(results: Path) -> None:
    assert "| H1 | it was lost | `tests/x.py::test_h1_a` | exit code 0, a / b |" in reliability_tables.defects(results)
