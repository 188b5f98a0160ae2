"""The drawings of a study, in the manner of the papers: bars, lines, curves over training, what was found in descriptors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from patchprint.common import files
from patchprint.common.optional import require
from patchprint.studies._results import grouped

if TYPE_CHECKING:
    from patchprint.studies._results import Row
    from patchprint.studies._study import Column, Study

_WIDTH = 10.0
_POINTS = 200  # of a function
_LEVEL_COLORS = ("red", "black", "gray")
_NEAR, _FAR = 2.0, 20.0  # ratios of means, below which bars are points, above which their axis is logarithmic


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

    Rows that differ in other labels alone are one bar, their mean. Means that lie near each other are points instead,
    since bars from zero would all look alike, and those that differ by more than an order stand on a logarithmic axis.

    Args:
        column: its title.
        bars: label whose values are the bars of a group, each in its color.
        groups: labels whose values stand side by side along the axis.
        panels: labels whose values have a plot each.
        levels: groups that are dashed lines across the plot in place of bars.
    """

    column: str
    bars: str
    groups: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    def draw(self, strip: Any, study: Study, rows: list[Row]) -> None:
        column = _column(study, self.column)
        panels = _split(rows, self.panels)
        groups = [group for group in _split(rows, self.groups) if group not in self.levels]
        bars = list(_split([row for row in rows if _title(row, self.groups) in groups], (self.bars,)))
        all_axes = strip.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        ratio = self._ratio(column, rows)
        for axes, (title, chosen) in zip(all_axes, panels.items(), strict=True):
            for name, members in _split(chosen, self.groups).items():
                if name in self.levels:
                    self._draw_level(axes, column, name, members)
                else:
                    self._draw_group(axes, column, groups.index(name), bars, members, as_points=ratio < _NEAR)
            axes.set_yscale("log" if ratio > _FAR else "linear")
            if not ratio:
                axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", va="center")
            axes.set_xticks(range(len(groups)), groups, rotation=20 if len(groups) > 3 else 0)
            axes.set(title=title, xlabel=", ".join(self.groups), xlim=(-0.5, len(groups) - 0.5))
        all_axes[0].set_ylabel(self.column)
        has_published = any(column.title in row.case.published for row in rows)
        colors = [(f"C{number}", bar) for number, bar in enumerate(bars)]
        _legend(strip, f"{self.bars}:", colors + list(zip(_LEVEL_COLORS, self.levels, strict=False)), has_published)

    def _ratio(self, column: Column, rows: list[Row]) -> float:
        """Of the largest mean to the smallest; between the limits where one is not above zero, 0 where there is none."""
        found = grouped(rows, (*self.panels, *self.groups, self.bars))
        means = [mean for mean, _ in (bar.summary(column) for bar in found) if mean is not None]
        if not means:
            return 0.0
        return max(means) / min(means) if min(means) > 0 else (_NEAR + _FAR) / 2

    def _draw_group(
        self, axes: Any, column: Column, place: int, bars: list[str], members: list[Row], *, as_points: bool
    ) -> None:
        found = grouped(members, (self.bars,))
        width = min(0.25, 0.8 / len(found))
        for number, bar in enumerate(found):
            mean, spread = bar.summary(column)
            x = place + (number - (len(found) - 1) / 2) * width
            color = f"C{bars.index(bar.labels[self.bars])}"
            if mean is not None and as_points:
                axes.errorbar(x, mean, spread, fmt="o", color=color, capsize=3)
            elif mean is not None:
                axes.bar(x, mean, width, yerr=spread, color=color, capsize=2)
            published = bar.published(column)
            if published is not None:
                axes.plot(x, published, "kD", markersize=3)

    def _draw_level(self, axes: Any, column: Column, name: str, members: list[Row]) -> None:
        (level,) = grouped(members, ())
        mean, published = level.summary(column).mean, level.published(column)
        color = _LEVEL_COLORS[self.levels.index(name)]
        if mean is not None:
            axes.axhline(mean, linestyle="--", color=color)
        if published is not None:
            axes.plot(0.99, published, "D", color=color, markersize=3, transform=axes.get_yaxis_transform())


@dataclass(frozen=True)
class Lines(Figure):
    """Columns over a label whose values are numbers, with their spread; diamonds stand at published values.

    Rows that differ in other labels alone are one line, their mean.

    Args:
        columns: titles, each with a plot of its own.
        x: the label.
        lines: labels whose values are lines of a plot.
        panels: labels whose values have a plot each.
        levels: values of the label that are no numbers, as dashed lines across the plot.
        logarithmic: whether the axis doubles where a plain one adds.
    """

    columns: tuple[str, ...]
    x: str
    lines: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    logarithmic: bool = False

    def draw(self, strip: Any, study: Study, rows: list[Row]) -> None:
        plots = [(column, *panel) for column in self.columns for panel in _split(rows, self.panels).items()]
        all_axes = strip.subplots(1, len(plots), squeeze=False)[0]
        for axes, (title, panel, chosen) in zip(all_axes, plots, strict=True):
            column = _column(study, title)
            at_a_value = [row for row in chosen if row.case.labels[self.x] not in self.levels]
            for name, members in _split(at_a_value, self.lines).items():
                self._draw_line(axes, column, name, members)
            for row in chosen:
                mean = row.summary(column).mean
                if row not in at_a_value and mean is not None:
                    level = row.case.labels[self.x]
                    axes.axhline(mean, linestyle="--", color=_LEVEL_COLORS[self.levels.index(level)], label=level)
            values = sorted({float(row.case.labels[self.x]) for row in at_a_value})
            if self.logarithmic:
                axes.set_xscale("log", base=2)
            axes.set_xticks(values, [f"{value:g}" for value in values])
            axes.set(xlabel=panel or self.x, ylabel=title)
            if axes.get_legend_handles_labels()[0] and (self.lines or self.levels):
                axes.legend(fontsize="small")

    def _draw_line(self, axes: Any, column: Column, name: str, members: list[Row]) -> None:
        points = sorted(grouped(members, (self.x,)), key=lambda each: float(each.labels[self.x]))
        found = [(float(each.labels[self.x]), *each.summary(column), each.published(column)) for each in points]
        done = [each for each in found if each[1] is not None]
        if done:
            x, mean, spread, _ = zip(*done, strict=True)
            axes.errorbar(x, mean, yerr=[each or 0 for each in spread], marker="o", capsize=2, label=name)
        known = [(x, published) for x, _, _, published in found if published is not None]
        if known:
            axes.plot(*zip(*known, strict=True), "kD", markersize=3, label="published")


@dataclass(frozen=True)
class Curves(Figure):
    """What was logged over training, of the runs with the first seed.

    Args:
        series: name in metrics.jsonl; ``*`` stands for anything, and every name that matches is a line.
        ylabel: what it is.
        panels: labels whose values have a plot each; without any, all rows are in one.
        legend: whether lines are named; many samples of one run need no names.
        scale: factor, such as 100 for a share in percent.
        marks_least: whether the least value of each line is marked.
    """

    series: str
    ylabel: str
    panels: tuple[str, ...] = ()
    legend: bool = True
    scale: float = 1.0
    marks_least: bool = False

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
                    scaled = [self.scale * value for value in values]
                    (line,) = axes.plot(steps, scaled, linewidth=1, label=", ".join(words))
                    if self.marks_least:
                        step, least = min(zip(steps, scaled, strict=True), key=lambda point: point[1])
                        axes.plot(step, least, "o", color=line.get_color())
                        axes.annotate(f"{least:.3g}", (step, least), fontsize="small", va="top")
            axes.set(xlabel="step", title=title)
            if self.legend and axes.lines:
                axes.legend(fontsize="small")
        all_axes[0].set_ylabel(self.ylabel)


@dataclass(frozen=True)
class Profiles(Figure):
    """What a probe found as curves and distributions, of the runs with the first seed.

    Args:
        measure: its name in the study.
        curves: paths in its scores to ``{"x": [...], "y": [...]}``, each with a plot of its own, in which every row is a line.
        shades: the same for distributions, one for each plot, filled from zero.
        xlabel: what is on the horizontal axes.
    """

    measure: str
    curves: tuple[str, ...] = ()
    shades: tuple[str, ...] = ()
    xlabel: str = ""

    def draw(self, strip: Any, study: Study, rows: list[Row]) -> None:
        count = max(len(self.curves), len(self.shades))
        for number, axes in enumerate(strip.subplots(1, count, squeeze=False)[0]):
            filled = axes.twinx() if self.curves and self.shades else axes
            for row in rows:
                name = ", ".join(row.case.labels.values())
                if self.curves and (curve := row.runs[0].score(self.measure, self.curves[number])):
                    axes.plot(curve["x"], curve["y"], linewidth=1, label=name)
                if self.shades and (shade := row.runs[0].score(self.measure, self.shades[number])):
                    filled.fill_between(shade["x"], shade["y"], alpha=0.2, label=name)
            paths = [names[number] for names in (self.curves, self.shades) if names]
            axes.set(
                title=" over ".join(path.replace(".", " ").replace("_", " ") for path in paths), xlabel=self.xlabel
            )
            if filled is not axes:  # both scales begin at zero
                axes.set_ylim(0)
                filled.set_ylim(0)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize="small")


@dataclass(frozen=True)
class HeatMap(Figure):
    """What a probe found over two axes, ``{"x": [...], "y": [...], "z": [[...]]}`` with a row of z for each y; a plot a row."""

    measure: str
    path: str
    xlabel: str
    ylabel: str

    def draw(self, strip: Any, study: Study, rows: list[Row]) -> None:
        for axes, row in zip(strip.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
            found = row.runs[0].score(self.measure, self.path)
            if found:
                extent = (found["x"][0], found["x"][-1], found["y"][0], found["y"][-1])
                strip.colorbar(axes.imshow(found["z"], origin="lower", extent=extent, aspect="auto", cmap="jet"))
            axes.set(title=", ".join(row.case.labels.values()), xlabel=self.xlabel, ylabel=self.ylabel)


@dataclass(frozen=True)
class Functions(Figure):
    """Formulas, which need no run."""

    xlabel: str
    ylabel: str
    start: float
    end: float
    curves: dict[str, Callable[[float], float]] = field(default_factory=dict)

    def draw(self, strip: Any, study: Study, rows: list[Row]) -> None:
        axes = strip.subplots()
        x = [self.start + (self.end - self.start) * number / (_POINTS - 1) for number in range(_POINTS)]
        for name, function in self.curves.items():
            axes.plot(x, [function(value) for value in x], label=name)
        axes.set(xlabel=self.xlabel, ylabel=self.ylabel)
        axes.legend(fontsize="small")


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


def _column(study: Study, title: str) -> Column:
    return next(each for each in study.columns if each.title == title)


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
