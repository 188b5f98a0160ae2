"""Curves of results: precision over recall along sequences, and average precision over angle or scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchprint.extras import require
from patchprint.report.comparison import data_name
from patchprint.report.page import Figure, Section

_COLUMNS = 3


def curve_sections(results: Sequence[dict[str, Any]]) -> list[Section]:
    """A section for each kind of curve that the results hold."""
    sections = []
    for name, axis in (("rotation", "degrees"), ("scale", "factor")):
        chosen = [result for result in results if result["benchmark"] == name]
        if chosen:
            sections.append(Section(f"Robustness to {name}", figures=[_robustness(chosen, axis)]))
    with_curves = [r for r in results if r["benchmark"] == "oxford" and r["settings"].get("curves")]
    if with_curves:
        sections.append(Section("Precision and recall along sequences", figures=[_precision_recall(with_curves)]))
    return sections


def _robustness(results: Sequence[dict[str, Any]], axis: str) -> Figure:
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(7, 3.5))
    for number, result in enumerate(results):
        scores, label = result["scores"], f"{result['model']['name']} on {data_name(result)}"
        axes.plot(scores[axis], scores["oriented"], color=f"C{number % 10}", label=label)
        axes.plot(scores[axis], scores["upright"], color=f"C{number % 10}", linestyle="--")
    axes.set(xlabel=axis, ylabel="average precision", ylim=(0, 1.02))
    axes.legend()
    return _close(pyplot, figure, "Solid: with the keypoints' angles. Dashed: upright.")


def _precision_recall(results: Sequence[dict[str, Any]]) -> Figure:
    """One small plot for the middle pair of every sequence, one line for each result."""
    pyplot = _pyplot()
    sequences = list(results[0]["scores"]["sequences"])
    rows = -(-len(sequences) // _COLUMNS)
    figure, grid = pyplot.subplots(rows, _COLUMNS, figsize=(9, 2.8 * rows), squeeze=False, sharex=True, sharey=True)
    for sequence, axes in zip(sequences, grid.flat, strict=False):
        names = sorted(name for name in results[0]["scores"]["pairs"] if name.startswith(f"{sequence}/"))
        middle = names[len(names) // 2]
        for result in results:
            curve = result["scores"]["pairs"].get(middle, {}).get("curve", {"recall": [], "precision": []})
            axes.plot(curve["recall"], curve["precision"], label=result["model"]["name"])
        axes.set(title=middle, xlim=(0, 1), ylim=(0, 1.02))
    for axes in list(grid.flat)[len(sequences) :]:
        axes.set_axis_off()
    grid[0, 0].legend(fontsize="small")
    return _close(pyplot, figure, "Precision over recall, the middle pair of every sequence.")


def _pyplot() -> Any:
    require("matplotlib", extra="images").use("agg")
    return require("matplotlib.pyplot", extra="images")


def _close(pyplot: Any, figure: Any, caption: str) -> Figure:
    try:
        return Figure.from_plot(figure, caption)
    finally:
        pyplot.close(figure)
