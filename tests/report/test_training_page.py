"""The page of training runs: results, curves, and what every call of training cost."""

from pathlib import Path

import pytest

from patchprint.common.table import Table
from patchprint.report.charts import Chart
from patchprint.report.page import Code, Section, render
from patchprint.report.runs import read_run, read_runs
from patchprint.report.training_page import run_sections, training_page, verdict
from support.made_runs import write_run


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


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a training run"):
        read_run(tmp_path)
