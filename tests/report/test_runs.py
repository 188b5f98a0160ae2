"""Training runs as sections of a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchprint.report.page import render
from patchprint.report.results_page import results_page
from patchprint.report.runs import Run, read_run, run_sections, title_of


def write_run(folder: Path, fpr95: float) -> Run:
    lines = [{"step": step, "loss/total": 1.0 / step, "loss/positive_std": 0.5, "lr": 1.0} for step in (1, 2, 3)]
    lines += [{"step": step, "validation/fpr95": fpr95 * 2 / step, "validation/confusion": 0.3} for step in (2, 3)]
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (folder / "config.json").write_text('{"recipe": "hardnet"}')
    return read_run(folder)


def test_one_run_has_validation_first_and_its_settings(tmp_path: Path) -> None:
    together, settings = run_sections([write_run(tmp_path / "mine", 0.3)])
    titles = ["confusion, held-out points", "FPR95, held-out points", "loss", "loss: positive std"]
    assert [figure.caption for figure in together.figures] == titles
    assert together.tables[0].rows == [["mine", "hardnet", "3", "30.00 %", "20.00 %"]]
    assert settings.heading == "Settings of mine" and "hardnet" in settings.code


def test_several_runs_share_their_figures(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a" / "run", 0.3),
        write_run(tmp_path / "b" / "run", 0.15),
        write_run(tmp_path / "other", 0.6),
    ]
    together, *settings = run_sections(runs)
    assert len(together.figures) == 4 and len(settings) == 3
    (table,) = together.tables
    assert [row[0] for row in table.rows] == [str(tmp_path / "a" / "run"), str(tmp_path / "b" / "run"), "other"]
    assert (4, "10.00 %") in table.best
    text = render(results_page([], run_sections(runs)))
    assert text.count("<figure>") == 4


def test_a_run_that_measured_nothing_has_a_row_and_no_line(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "metrics.jsonl").write_text("")
    together, _ = run_sections([write_run(tmp_path / "mine", 0.3), read_run(empty)])
    assert together.tables[0].rows[1] == ["empty", "-", "0", "-", "-"]
    assert run_sections([]) == []


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
