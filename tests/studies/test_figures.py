"""Figures: every row is in them, missing ones do not break them, and the same numbers give the same file."""

from __future__ import annotations

from xml.etree import ElementTree

from patchprint.studies import Bars, Case, Curves, Figure, Gains, HeatMap, Lines, Profiles, Study
from patchprint.studies._figures import StudyDrawing
from patchprint.studies._results import RunRecord
from support.toy_studies import record, rows_of, toy_study

DONE = (record(0, fpr95=4.0), record(1, fpr95=6.0))
MISSING = (record(0), record(1, error="no memory"))
BARS = Bars("FPR95 %", bars="norms", groups=("recipe",))


def drawn(study: Study, *runs: tuple[RunRecord, ...]) -> str:
    text = StudyDrawing(study, rows_of(study, *runs)).file()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    return text


def toy_figure(figure: Figure, *runs: tuple[RunRecord, ...]) -> str:
    return drawn(toy_study(figures=(figure,)), *(runs or [DONE] * 4))


def test_bars_and_curves_name_what_they_show() -> None:
    text = drawn(toy_study(), *[DONE] * 4)
    for word in ("FPR95 %", "hardnet", "hynet", "plain", "SEC", "hynet, SEC", "norm/variance", "step"):
        assert f">{word}<" in text, word
    assert text == drawn(toy_study(), *[DONE] * 4), "the same numbers give the same file"


def test_missing_runs_leave_gaps() -> None:
    full = drawn(toy_study(), *[DONE] * 4)
    assert drawn(toy_study(), DONE, MISSING, DONE, MISSING).count("<path") < full.count("<path")
    assert ">not measured<" in toy_figure(BARS, *[MISSING] * 4)


def test_published_values_and_levels_are_marked() -> None:
    assert ">published<" in toy_figure(BARS)
    assert ">published<" not in toy_figure(Bars("norm variance", bars="norms", groups=("recipe",)))
    text = toy_figure(Bars("FPR95 %", bars="norms", groups=("recipe",), levels=("hynet",)))
    assert text.count("stroke-dasharray") >= 1
    assert all(f">{words}<" in text for words in ("hardnet", "hynet", "plain", "SEC"))


def test_means_of_several_orders_stand_on_a_logarithmic_axis() -> None:
    lowest, low, high = ((record(0, fpr95=value),) for value in (0.01, 10.0, 100.0))
    assert ">80<" in toy_figure(BARS, low, high, low, high)
    assert ">80<" not in toy_figure(BARS, lowest, high, lowest, high)


def test_gains_stand_over_the_factor_of_another_column() -> None:
    small = (record(0, fpr95=4.0, norm_variance=0.05), record(1, fpr95=6.0, norm_variance=0.05))
    shown = toy_figure(Gains("FPR95 %", over="norm variance", panels=("recipe",)), DONE, small, DONE, MISSING)
    assert all(f">{words}<" in shown for words in ("hardnet", "hynet", "SEC", "gain in FPR95 %"))
    assert "norm variance: baseline over row" in shown and ">plain<" not in shown


def test_lines_go_along_numbers() -> None:
    labels = [{"alpha": alpha, "kind": kind} for alpha in ("2", "10", "0.5", "HardNet") for kind in ("one", "other")]
    cases = tuple(Case(each, "hardnet", learns="train") for each in labels)
    lines = Lines(("FPR95 %",), x="alpha", lines=("kind",), levels=("HardNet",))
    text = drawn(toy_study(cases=cases, baseline=None, figures=(lines,)), *[DONE] * 5, MISSING, DONE, DONE)
    places = [text.index(f">{value}<") for value in ("0.5", "2", "10")]
    assert places == sorted(places)
    assert all(f">{words}<" in text for words in ("alpha", "one", "other", "FPR95 %", "HardNet"))


def test_curves_name_rows_and_mark_the_least_value() -> None:
    text = toy_figure(Curves("norm/mean", "mean", scale=100, marks_least=True))
    assert all(f">{words}<" in text for words in ("hardnet, plain", "hynet, SEC", "mean", "100"))


def test_probes_are_drawn() -> None:
    curve = {"x": [0.0, 1.0], "y": [0.5, 0.25]}
    cells = {"x": [0.0, 1.0], "y": [0.0, 1.0], "z": [[0.0, 1.0], [1.0, 0.0]]}
    found = (record(0, weights={"positive": curve}, angles={"positive": curve}, map=cells),) * 2
    figures = (
        Profiles("test", curves=("weights.positive",), shades=("angles.positive",), xlabel="angle"),
        HeatMap("test", "map", xlabel="theta+", ylabel="theta-"),
    )
    text = drawn(toy_study(figures=figures), found, found, MISSING, MISSING)
    assert all(f">{words}<" in text for words in ("weights positive over angles positive", "angle", "hardnet, SEC"))
    assert text.count("<image") >= 2
    assert "hynet, SEC" in text
