"""Drawings: every row is in them, missing ones do not break them, and the same numbers give the same file."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from patchprint.studies import Case, HeatMap, Lines, Profiles, Study
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


def test_levels_are_lines_across(tmp_path: Path) -> None:
    bars = Bars("FPR95 %", bars="norms", groups=("recipe",), levels=("hynet",))
    text = drawing(tmp_path / "a.svg", toy_study(figures=(bars,)), DONE, DONE, DONE, DONE)
    assert text.count("stroke-dasharray") == 1
    assert all(f">{words}<" in text for words in ("hardnet", "hynet", "plain", "SEC"))


def numbered(published: dict[str, float] | None = None) -> Study:
    """Rows whose label alpha is a number, each in two kinds."""
    labels = [{"alpha": alpha, "kind": kind} for alpha in ("2", "10", "0.5") for kind in ("one", "other")]
    cases = tuple(Case(each, "hardnet", learns="train", published=published or {}) for each in labels)
    return toy_study(cases=cases, baseline=None, figures=(Lines(("FPR95 %",), x="alpha", lines=("kind",)),))


def test_lines_go_along_numbers(tmp_path: Path) -> None:
    text = drawing(tmp_path / "a.svg", numbered(), *[DONE] * 5, MISSING)
    places = [text.index(f">{value}<") for value in ("0.5", "2", "10")]
    assert places == sorted(places)
    assert all(f">{words}<" in text for words in ("alpha", "one", "other", "FPR95 %"))
    assert "published" not in text
    assert ">published<" in drawing(tmp_path / "b.svg", numbered({"FPR95 %": 3.0}), *[DONE] * 6)


def test_the_least_of_a_curve_is_marked(tmp_path: Path) -> None:
    study = toy_study(figures=(Curves("norm/mean", "mean", scale=100, marks_least=True),))
    assert ">100<" in drawing(tmp_path / "a.svg", study, DONE, DONE, DONE, DONE)


def test_what_a_probe_found(tmp_path: Path) -> None:
    curve = {"x": [0.0, 1.0], "y": [0.5, 0.25]}
    cells = {"x": [0.0, 1.0], "y": [0.0, 1.0], "z": [[0.0, 1.0], [1.0, 0.0]]}
    found = (record(0, weights={"positive": curve}, angles={"positive": curve}, map=cells),) * 2
    figures = (
        Profiles("test", curves=("weights.positive",), shades=("angles.positive",), xlabel="angle"),
        HeatMap("test", "map", xlabel="theta+", ylabel="theta-"),
    )
    text = drawing(tmp_path / "a.svg", toy_study(figures=figures), found, found, MISSING, MISSING)
    assert all(f">{words}<" in text for words in ("weights positive over angles positive", "angle", "hardnet, SEC"))
    assert text.count("<image") >= 2
    assert "hynet, SEC" in text


def test_the_same_numbers_give_the_same_file(tmp_path: Path) -> None:
    assert drawing(tmp_path / "a.svg", toy_study(), DONE, DONE, DONE, DONE) == drawing(
        tmp_path / "b.svg", toy_study(), DONE, DONE, DONE, DONE
    )


def test_means_near_each_other_are_points(tmp_path: Path) -> None:
    bars = toy_study(figures=(Bars("FPR95 %", bars="norms", groups=("recipe",)),))
    low, high = (record(0, fpr95=4.0),), (record(0, fpr95=40.0),)
    apart = drawing(tmp_path / "apart.svg", bars, low, high, low, high)
    near = drawing(tmp_path / "near.svg", bars, low, low, low, low)
    assert near.count("<path") < apart.count("<path"), "no bars"


def test_means_of_several_orders_stand_on_a_logarithmic_axis(tmp_path: Path) -> None:
    bars = toy_study(figures=(Bars("FPR95 %", bars="norms", groups=("recipe",)),))
    low, high = (record(0, fpr95=0.01),), (record(0, fpr95=100.0),)
    assert r"10^{1}" in drawing(tmp_path / "a.svg", bars, low, high, low, high)


def test_a_column_without_numbers_says_so(tmp_path: Path) -> None:
    bars = toy_study(figures=(Bars("FPR95 %", bars="norms", groups=("recipe",)),))
    assert ">not measured<" in drawing(tmp_path / "a.svg", bars, MISSING, MISSING, MISSING, MISSING)


def test_levels_of_a_label_of_numbers_are_lines_across(tmp_path: Path) -> None:
    cases = tuple(Case({"alpha": alpha}, "hardnet", learns="train") for alpha in ("2", "10", "HardNet"))
    lines = Lines(("FPR95 %",), x="alpha", levels=("HardNet",))
    study = toy_study(cases=cases, baseline=None, figures=(lines,))
    text = drawing(tmp_path / "a.svg", study, DONE, DONE, DONE)
    assert all(f">{words}<" in text for words in ("2", "10", "HardNet"))
    missing = drawing(tmp_path / "b.svg", study, DONE, DONE, MISSING)
    assert text.count("stroke-dasharray") > missing.count("stroke-dasharray")
