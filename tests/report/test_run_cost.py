"""Cost: every call of a run and every result has its line, and what is not known is a dash."""

from __future__ import annotations

from pathlib import Path

from patchprint.common.table import Table
from patchprint.report.page import Code, Text
from patchprint.report.run_cost import cost_sections, origin
from patchprint.report.runs import read_run
from support.made_runs import made_cost, oxford_result, write_run


def test_calls_and_results_have_their_lines(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "mine"))
    bare = {name: value for name, value in oxford_result("bare", 0.5).items() if name != "run"}
    (section,) = cost_sections([oxford_result("m", 0.5), bare], [run], [Text("more")])
    calls, results = (part for part in section.parts if isinstance(part, Table))
    assert calls.rows == [["mine", "0 to 12", "12.5", "345.6", "–", "a processor (2 cores)", "2026-01-02"]]
    assert results.rows[0] == ["oxford", "oxford", "m", "0123456789ab", "12.5", "345.6", "2026-01-02"]
    assert results.rows[1][4:] == ["–", "–", "–"]
    (code,) = (part for part in section.parts if isinstance(part, Code))
    assert code.text == "patchprint train hardnet --out mine\npatchprint eval oxford --model m"
    assert section.parts[-1] == Text("more")


def test_where_nothing_is_known_there_is_no_section() -> None:
    assert cost_sections([], []) == []
    assert origin([{}]) == "patchprint –, torch –, – (– cores)"
    assert origin([made_cost("a"), made_cost("b")]) == "patchprint 0.1.0, torch 2.13, a processor (2 cores)"
