"""Figures: every row is in them, missing ones do not break them, and the same numbers give the same file."""

from xml.etree import ElementTree

from patchprint.studies import Bars, Figure, Gains, Study
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
