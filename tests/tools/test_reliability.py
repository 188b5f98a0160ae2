"""The one result about reliability: every defect has a test, and what does not hold is said."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT
from tools import reliability
from tools.reliability import DEFECTS, PASSED, REVIEWED, defects, defects_of, join, problems, read_outcomes

REPORT = """<testsuites><testsuite>
<testcase classname="tests.faults.defects.test_inputs" name="test_h6_cut[frames]"/>
<testcase classname="tests.faults.defects.test_inputs" name="test_l1_l9_names"><failure message="AssertionError: it never ended,
assert None == 2">def test():
E   AssertionError
tests/faults/defects/test_inputs.py:52: AssertionError</failure></testcase>
</testsuite></testsuites>"""
H6, L1_L9 = (
    "tests/faults/defects/test_inputs.py::test_h6_cut[frames]",
    "tests/faults/defects/test_inputs.py::test_l1_l9_names",
)


def test_a_test_is_named_after_its_defects() -> None:
    assert defects_of(H6) == ["H6"] and defects_of(L1_L9) == ["L1", "L9"]
    assert defects_of("tests/common/test_rng.py::test_numbers") == []


def test_every_defect_has_a_test() -> None:
    shown = set()
    for file in (ROOT / reliability.TESTS).glob("test_*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                shown |= set(defects_of(f"{file}::{node.name}"))
    assert shown == set(DEFECTS)


@pytest.fixture
def outcomes(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "report.xml").write_text(REPORT)
    return read_outcomes(tmp_path / "report.xml")


def test_outcomes_say_where_and_why(outcomes: dict[str, str]) -> None:
    assert outcomes[H6] == PASSED
    assert outcomes[L1_L9].startswith("tests/faults/defects/test_inputs.py:52: AssertionError: it never ended,")


def parts(hangs: int = 0) -> dict[str, Any]:
    counts = {"cases": 3, "read": 1, "refused": 2 - hangs, "crashes": 0, "hangs": hangs, "tracebacks": 0}
    numbers = {"injected": 2, "recovered": 2, "lost": 0, "by_fault": {}, "by_writer": {}, "problems": []}
    scores = {
        "faults": numbers,
        "fuzz": {"total": counts, "readers": {"weights": {**counts, "faults": []}}},
        "load": {"describe": {"photos": 3}, "train": {"steps": 4}, "problems": []},
    }
    return {
        name: {"settings": {}, "seed": 1, "scores": each, "run": {"command": f"make {name}"}}
        for name, each in scores.items()
    }


def test_a_defect_is_shown_by_a_test_that_failed_and_passes() -> None:
    now = {f"tests/x.py::test_{name.lower()}_is_mended": PASSED for name in DEFECTS}
    before = dict.fromkeys(now, "it hung")
    scores = join(defects(now, before), parts())
    assert problems(scores, parts()) == []
    assert scores["defects"]["H3"]["tests"] == {"tests/x.py::test_h3_is_mended": {"now": PASSED, REVIEWED: "it hung"}}
    assert scores["damaged_files"]["readers"]["weights"]["cases"] == 3
    assert scores["origin"]["load"]["command"] == "make load"


def test_what_does_not_hold_is_said() -> None:
    now = {f"tests/x.py::test_{name.lower()}_is_mended": PASSED for name in DEFECTS}
    before = dict.fromkeys(now, "it hung")
    before["tests/x.py::test_h3_is_mended"] = PASSED
    now["tests/x.py::test_l4_is_mended"] = "IndexError"
    del now["tests/x.py::test_m7_is_mended"]
    found = problems(join(defects(now, before), parts(hangs=1)), parts(hangs=1))
    assert [line.split()[0] for line in found] == ["H3", "M7", "L4", "1"]
