"""Curves of results: ROC, precision over recall, and average precision over angle or scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchprint.report.charts import Chart, Line
from patchprint.report.page import Part, Section
from patchprint.report.result_comparison import comparable, data_name, label_of, where

_RECALL_OF_FPR95 = 0.95
_AXES = {"rotation": ("degrees", "degrees"), "scale": ("factor", "factor")}


def curve_sections(results: Sequence[dict[str, Any]]) -> list[Section]:
    """Return a section for each kind of curve in the results."""
    sections = []
    verified: list[Part] = [
        chart for group in comparable([r for r in results if _has_curves(r)]) for chart in _verification(group)
    ]
    if verified:
        sections.append(Section("Telling pairs apart", verified))
    for name, (scores, axis) in _AXES.items():
        chosen = [result for result in results if result["benchmark"] == name]
        if chosen:
            sections.append(Section(f"Robustness to {name}", [_robustness(chosen, scores, axis)]))
    with_curves = [r for r in results if r["benchmark"] == "oxford" and r["settings"].get("curves")]
    if with_curves:
        sections.append(Section("Precision and recall along sequences", _precision_recall(with_curves)))
    return sections


def _has_curves(result: dict[str, Any]) -> bool:
    """Return whether a result holds complete curves of `metrics.verification.curves`."""
    curves = result["scores"].get("curves")
    wanted = {"roc": ("fpr", "recall"), "precision_recall": ("recall", "precision")}
    return isinstance(curves, dict) and all(
        isinstance(curve := curves.get(name), dict) and _are_numbers(*(curve.get(axis) for axis in axes))
        for name, axes in wanted.items()
    )


def _are_numbers(*lists: Any) -> bool:
    """Return whether all are lists of numbers of the same length."""
    right = all(isinstance(each, list) and all(isinstance(value, int | float) for value in each) for each in lists)
    return right and len({len(each) for each in lists}) == 1


def _verification(group: Sequence[dict[str, Any]]) -> list[Chart]:
    place = where(group[0])
    roc, precision = [], []
    for number, result in enumerate(group):
        curves, label = result["scores"]["curves"], label_of(result)
        roc.append(Line(label, curves["roc"]["fpr"], curves["roc"]["recall"], color=number))
        along = curves["precision_recall"]
        precision.append(Line(label, along["recall"], along["precision"], color=number))
    rates = [x for line in roc for x in line.x if x > 0]
    roc.append(Line("recall 95 %", [min(rates), 1.0], [_RECALL_OF_FPR95] * 2, color=7, dashed=True))
    note = "FPR95 is read off where a curve crosses the dashed line. Equal distances count against a descriptor."
    return [
        Chart(f"ROC, {place}", "false positive rate", "recall", roc, note, logarithmic=True),
        Chart(f"Precision and recall, {place}", "recall", "precision", precision),
    ]


def _robustness(results: Sequence[dict[str, Any]], scores: str, axis: str) -> Chart:
    lines = []
    for number, result in enumerate(results):
        label = f"{label_of(result)} on {data_name(result)}"
        for name, dashed in (("oriented", False), ("upright", True)):
            words = f"{label}, upright" if dashed else label
            found = result["scores"]
            lines.append(Line(words, found[scores], found[name], color=number, dashed=dashed))
    note = "Solid: with the keypoints' angles. Dashed: upright."
    return Chart("Average precision", axis, "average precision", lines, note, y_range=(0.0, 1.02), wide=True)


def _precision_recall(results: Sequence[dict[str, Any]]) -> list[Part]:
    """Return a chart of the middle pair of each sequence, with a line for each result."""
    charts: list[Part] = []
    for sequence in results[0]["scores"]["sequences"]:
        names = sorted(name for name in results[0]["scores"]["pairs"] if name.startswith(f"{sequence}/"))
        middle = names[len(names) // 2]
        lines = []
        for number, result in enumerate(results):
            curve = result["scores"]["pairs"].get(middle, {}).get("curve", {"recall": [], "precision": []})
            lines.append(Line(label_of(result), curve["recall"], curve["precision"], color=number))
        charts.append(Chart(f"{middle}, the middle pair", "recall", "precision", lines, y_range=(0.0, 1.02)))
    return charts
