"""The drawings of a study, in the manner of the papers: bars of one number, curves over training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from patchprint import files
from patchprint.extras import require

if TYPE_CHECKING:
    from patchprint.studies._results import Row
    from patchprint.studies._study import Study

_WIDTH = 10.0


class Figure(ABC):
    """One strip of the drawing; ``height`` is in inches."""

    height: ClassVar[float] = 3.2

    @property
    def series_names(self) -> tuple[str, ...]:
        """Patterns of what it shows out of metrics.jsonl."""
        return ()

    @abstractmethod
    def draw(self, strip: Any, study: Study, rows: list[Row]) -> None:
        """Draw into ``strip``, a matplotlib SubFigure."""


@dataclass(frozen=True)
class Bars(Figure):
    """A column of the table as groups of bars, with its spread; a diamond stands at the published value.

    Args:
        column: its title.
        bars: label whose values are the bars of a group, each in its color.
        groups: labels whose values stand side by side along the axis.
        panels: labels whose values have a plot each.
    """

    column: str
    bars: str
    groups: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()

    def draw(self, strip: Any, study: Study, rows: list[Row]) -> None:
        column = next(each for each in study.columns if each.title == self.column)
        panels, groups, bars = (
            _split(rows, self.panels),
            list(_split(rows, self.groups)),
            list(_split(rows, (self.bars,))),
        )
        all_axes = strip.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, chosen) in zip(all_axes, panels.items(), strict=True):
            for group, members in _split(chosen, self.groups).items():
                width = min(0.25, 0.8 / len(members))
                for number, row in enumerate(members):
                    mean, spread = row.summary(column)
                    place = groups.index(group) + (number - (len(members) - 1) / 2) * width
                    color = f"C{bars.index(row.case.labels[self.bars])}"
                    axes.bar(place, mean or 0, width, yerr=spread, color=color, capsize=2)
                    if column.title in row.case.published:
                        axes.plot(place, row.case.published[column.title], "kD", markersize=3)
            axes.set_xticks(range(len(groups)), groups, rotation=20 if len(groups) > 3 else 0)
            axes.set(title=title, xlabel=", ".join(self.groups), xlim=(-0.5, len(groups) - 0.5))
        all_axes[0].set_ylabel(self.column)
        has_published = any(column.title in row.case.published for row in rows)
        _legend(strip, f"{self.bars}:", [(f"C{number}", bar) for number, bar in enumerate(bars)], has_published)


@dataclass(frozen=True)
class Curves(Figure):
    """What was logged over training, of the runs with the first seed.

    Args:
        series: name in metrics.jsonl; ``*`` stands for anything, and every name that matches is a line.
        ylabel: what it is.
        panels: labels whose values have a plot each; without any, all rows are in one.
        legend: whether lines are named; many samples of one run need no names.
    """

    series: str
    ylabel: str
    panels: tuple[str, ...] = ()
    legend: bool = True

    @property
    def series_names(self) -> tuple[str, ...]:
        return (self.series,)

    def draw(self, strip: Any, study: Study, rows: list[Row]) -> None:
        panels = _split(rows, self.panels)
        all_axes = strip.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, chosen) in zip(all_axes, panels.items(), strict=True):
            for row in chosen:
                labels = [value for label, value in row.case.labels.items() if label not in self.panels]
                for name, (steps, values) in row.runs[0].series(self.series).items():
                    words = [*labels, name] if "*" in self.series else labels
                    axes.plot(steps, values, linewidth=1, label=", ".join(words))
            axes.set(xlabel="step", title=title)
            if self.legend and axes.lines:
                axes.legend(fontsize="small")
        all_axes[0].set_ylabel(self.ylabel)


def check() -> None:
    """Raise UserError where nothing can be drawn; better before the runs than after them."""
    require("matplotlib", extra="images")


def write(path: Path, study: Study, rows: list[Row]) -> None:
    """All figures of a study as one SVG; the same numbers give the same file."""
    matplotlib = require("matplotlib", extra="images")
    matplotlib.use("agg")
    pyplot = require("matplotlib.pyplot", extra="images")
    heights = [figure.height for figure in study.figures]
    with matplotlib.rc_context({"svg.hashsalt": "patchprint", "svg.fonttype": "none"}):
        whole = pyplot.figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
        try:
            strips = whole.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
            for strip, figure in zip(strips, study.figures, strict=True):
                figure.draw(strip, study, rows)
            with files.atomic_file(path) as temporary:
                whole.savefig(temporary, metadata={"Date": None})
        finally:
            pyplot.close(whole)


def _title(row: Row, labels: Sequence[str]) -> str:
    return ", ".join(row.case.labels[label] for label in labels)


def _split(rows: list[Row], labels: Sequence[str]) -> dict[str, list[Row]]:
    """Rows by the values of these labels, in their order; without any, all under no name."""
    titles = dict.fromkeys(_title(row, labels) for row in rows)
    return {title: [row for row in rows if _title(row, labels) == title] for title in titles}


def _legend(strip: Any, label: str, entries: Sequence[tuple[str, str]], has_published: bool) -> None:
    """One line above the plots: the label, its values with their colors, and the mark of published values."""
    patches, lines = require("matplotlib.patches", extra="images"), require("matplotlib.lines", extra="images")
    handles = [
        patches.Patch(alpha=0, label=label),
        *(patches.Patch(color=color, label=name) for color, name in entries),
    ]
    if has_published:
        handles.append(lines.Line2D([], [], marker="D", color="k", linestyle="", markersize=3, label="published"))
    strip.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
