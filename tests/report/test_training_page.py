"""The page of training runs: results, curves, and what every call of training cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchprint.common.provenance import origin
from patchprint.common.table import Table
from patchprint.report.charts import Chart
from patchprint.report.page import Code, Section, Text, render
from patchprint.report.runs import read_run, read_runs
from patchprint.report.training_page import cost_sections, run_sections, title_of, training_page, verdict
from support.made_runs import made_cost, write_run


def charts(sections: list[Section]) -> list[Chart]:
    return [part for section in sections for part in section.parts if isinstance(part, Chart)]


def table(sections: list[Section]) -> Table:
    (found,) = (part for section in sections for part in section.parts if isinstance(part, Table))
    return found


def test_one_run_has_validation_first_and_its_settings(tmp_path: Path) -> None:
    page = training_page([read_run(write_run(tmp_path / "mine", 0.3))])
    assert page.title == "Training of mine" and page.lead == "mine: recipe hardnet on liberty, 12 steps."
    assert [section.heading for section in page.sections] == [
        "Training",
        "Curves of training",
        "Distances over the training",
        "Where it goes wrong",
        "What it learned from",
        "Cost and commands",
    ]
    assert [chart.title for chart in charts(list(page.sections[:2]))] == [
        "FPR95, held-out points",
        "confusion, held-out points",
        "loss",
        "loss: relative",
        "loss: relative std",
        "loss: positive and negative",
        "loss: positive and negative std",
        "distance in the batch: positive and negative",
        "norm before normalization: mean",
        "norm before normalization: variance",
    ]
    assert table(list(page.sections[:2])).rows == [["mine", "hardnet", "12", "30.00 %", "30.00 %"]]
    settings = page.sections[-1].parts[-1]
    assert isinstance(settings, Code) and settings.summary == "Settings of mine" and "hardnet" in settings.text
    assert "patchprint train hardnet --out mine" in render(page)


def test_several_runs_share_their_charts(tmp_path: Path) -> None:
    values = {"a/run": 0.3, "b/run": 0.15, "other": 0.6}
    runs = read_runs([write_run(tmp_path / name, value) for name, value in values.items()])
    sections = run_sections(runs)
    assert [row[0] for row in table(sections).rows] == [f"{tmp_path}/a/run", f"{tmp_path}/b/run", "other"]
    assert (3, "15.00 %") in table(sections).best
    first, *_, pairs = (chart for chart in charts(sections) if "norm" not in chart.title)
    assert [line.label for line in first.lines] == [run.label for run in runs]
    assert [line.dashed for line in pairs.lines] == [False, True] * 3, "negatives"
    assert f"{tmp_path}/b/run is best" in verdict(runs)


def test_a_run_that_measured_nothing_has_a_row_and_no_line(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "metrics.jsonl").write_text("")
    runs = [read_run(write_run(tmp_path / "mine", 0.3)), read_run(empty)]
    assert table(run_sections(runs)).rows[1] == ["empty", "–", "0", "–", "–"]
    assert verdict(runs[1:]) == "Nothing was measured on held-out data. empty: 0 steps."
    assert [section.heading for section in training_page(runs[1:]).sections] == ["Training"]


def test_the_page_says_how_long_runs_are_drawn(tmp_path: Path) -> None:
    sections = run_sections([read_run(write_run(tmp_path / "long", steps=2000))])
    note = sections[-1].parts[-1]
    assert isinstance(note, Text) and "300 stretches" in note.text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test/fpr95/liberty", "FPR95 on liberty, test sets"),
        ("validation/missed", "1 - R@1, held-out points"),
        ("loss/total", "loss"),
    ],
)
def test_names_for_readers(name: str, expected: str) -> None:
    assert title_of(name) == expected


def test_every_call_has_its_line(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine")
    with open(folder / "calls.jsonl", "a") as stream:
        stream.write(json.dumps({"machine": "unknown"}) + "\n")
    (section,) = cost_sections([read_run(folder)], [made_cost("patchprint eval")], [Text("more")])
    calls = section.parts[0]
    assert isinstance(calls, Table)
    assert calls.rows == [
        ["mine", "0 to 12", "12.5", "345.6", "–", "a processor (2 cores)", "2026-01-02"],
        ["mine", "– to –", "–", "–", "–", "– (– cores)", "–"],
    ]
    assert Text("more") in section.parts
    assert Code("patchprint train hardnet --out mine\npatchprint eval") in section.parts
    assert cost_sections([]) == []
    assert origin([made_cost("a"), made_cost("b")]) == "patchprint 0.1.0, torch 2.13, a processor (2 cores)"


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a training run"):
        read_run(tmp_path)
