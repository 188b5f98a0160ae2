"""Drawings: every row is in them, missing ones do not break them, and the same numbers give the same file."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from patchprint.studies import Study
from patchprint.studies._figures import Bars, Curves, write
from patchprint.studies._results import RunRecord
from support.toy_studies import record, rows_of, toy_study

DONE = (record(0, fpr95=4.0), record(1, fpr95=6.0))
MISSING = (record(0), record(1, error="no memory"))


def drawing(path: Path, study: Study, *runs: tuple[RunRecord, ...]) -> str:
    write(path, study, rows_of(study, *runs))
    text = path.read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    return text


def test_bars_and_curves_name_what_they_show(tmp_path: Path) -> None:
    text = drawing(tmp_path / "toy.svg", toy_study(), DONE, DONE, DONE, DONE)
    for word in ("FPR95 %", "hardnet", "hynet", "plain", "SEC", "hynet, SEC", "norm/variance", "step"):
        assert f">{word}<" in text, word


def test_missing_runs_leave_gaps(tmp_path: Path) -> None:
    full = drawing(tmp_path / "full.svg", toy_study(), DONE, DONE, DONE, DONE)
    gaps = drawing(tmp_path / "gaps.svg", toy_study(), DONE, MISSING, DONE, MISSING)
    assert gaps.count("<path") < full.count("<path")


def test_published_values_are_marked(tmp_path: Path) -> None:
    bars = (Bars("FPR95 %", bars="norms", groups=("recipe",)),)
    marked = drawing(tmp_path / "a.svg", toy_study(figures=bars), DONE, DONE, DONE, DONE)
    other = (Bars("norm variance", bars="norms", groups=("recipe",)),)
    unmarked = drawing(tmp_path / "b.svg", toy_study(figures=other), DONE, DONE, DONE, DONE)
    assert marked.count("<use") - unmarked.count("<use") >= 2


def test_one_panel_with_a_line_for_each_row(tmp_path: Path) -> None:
    text = drawing(tmp_path / "a.svg", toy_study(figures=(Curves("norm/mean", "mean"),)), DONE, DONE, DONE, DONE)
    assert all(f">{words}<" in text for words in ("hardnet, plain", "hynet, SEC", "mean"))


def test_the_same_numbers_give_the_same_file(tmp_path: Path) -> None:
    assert drawing(tmp_path / "a.svg", toy_study(), DONE, DONE, DONE, DONE) == drawing(
        tmp_path / "b.svg", toy_study(), DONE, DONE, DONE, DONE
    )
