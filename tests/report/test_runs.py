"""Training runs as sections of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchprint.common.table import Table
from patchprint.report.charts import Chart
from patchprint.report.page import Code, Section, Text
from patchprint.report.runs import read_run, read_runs, run_sections, settings_parts, title_of, verdict
from support.made_runs import write_run


def charts(sections: list[Section]) -> list[Chart]:
    return [part for section in sections for part in section.parts if isinstance(part, Chart)]


def table(sections: list[Section]) -> Table:
    (found,) = (part for section in sections for part in section.parts if isinstance(part, Table))
    return found


def test_one_run_has_validation_first_and_its_settings(tmp_path: Path) -> None:
    runs = read_runs([write_run(tmp_path / "mine", 0.3)])
    sections = run_sections(runs)
    assert [chart.title for chart in charts(sections)] == [
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
    assert table(sections).rows == [["mine", "hardnet", "12", "30.00 %", "30.00 %"]]
    (settings,) = settings_parts(runs)
    assert isinstance(settings, Code) and settings.summary == "Settings of mine" and "hardnet" in settings.text


def test_several_runs_share_their_charts(tmp_path: Path) -> None:
    runs = read_runs(
        [
            write_run(tmp_path / "a" / "run", 0.3),
            write_run(tmp_path / "b" / "run", 0.15),
            write_run(tmp_path / "other", 0.6),
        ]
    )
    sections = run_sections(runs)
    assert [row[0] for row in table(sections).rows] == [
        str(tmp_path / "a" / "run"),
        str(tmp_path / "b" / "run"),
        "other",
    ]
    assert (3, "15.00 %") in table(sections).best
    first, *_, pairs = (chart for chart in charts(sections) if "norm" not in chart.title)
    assert [line.label for line in first.lines] == [run.label for run in runs]
    assert [line.dashed for line in pairs.lines] == [False, True] * 3, "negatives"
    assert f"{tmp_path / 'b' / 'run'} is best" in verdict(runs)


def test_a_run_that_measured_nothing_has_a_row_and_no_line(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "metrics.jsonl").write_text("")
    runs = [read_run(write_run(tmp_path / "mine", 0.3)), read_run(empty)]
    assert table(run_sections(runs)).rows[1] == ["empty", "–", "0", "–", "–"]
    assert run_sections([]) == []
    assert verdict(runs[1:]) == "Nothing was measured on held-out data. empty: 0 steps."
    assert [section.heading for section in run_sections(runs[1:])] == ["Training"]


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


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a training run"):
        read_run(tmp_path)
