"""Figures of a study: bars, lines, curves over training, distributions, heat maps and formulas, drawn as by `report.charts`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patchprint.report.charts import COLORS, INK, Drawing, series_color
from patchprint.studies._results import baseline_of, grouped

if TYPE_CHECKING:
    from patchprint.studies._results import Group, Row
    from patchprint.studies._study import Column, Study

_POINTS = 200  # of a function
_NEAR, _FAR = 2.0, 20.0  # ratios of means, below which bars are points, above which their axis is logarithmic


class Figure(ABC):
    """One strip of the drawing of a study."""

    @abstractmethod
    def draw(self, strip: Any, study: Study, rows: Sequence[Row]) -> None:
        """Draw into ``strip``, a matplotlib SubFigure."""


@dataclass(frozen=True)
class Bars(Figure):
    """A column of the table as groups of bars with their spread, and published values as diamonds.

    Rows that differ in other labels alone are one bar, their mean. Means that lie near each other are points instead, since
    bars from zero would all look alike; means that differ by more than an order stand on a logarithmic axis.

    Args:
        column: title of the column.
        bars: label whose values are the bars of a group, each in its color.
        groups: labels whose values stand side by side along the axis.
        panels: labels whose values have a plot each.
        levels: groups that are dashed lines across the plot instead of bars.
    """

    column: str
    bars: str
    groups: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    def draw(self, strip: Any, study: Study, rows: Sequence[Row]) -> None:
        column = study.column(self.column)
        all_groups = grouped(rows, self.groups)
        places = [group.title for group in all_groups if group.title not in self.levels]
        in_bars = [row for group in all_groups if group.title in places for row in group.rows]
        colors = {bar.title: series_color(number) for number, bar in enumerate(grouped(in_bars, (self.bars,)))}
        ratio = self._ratio(column, rows)
        for axes, panel in _plots(strip, grouped(rows, self.panels), sharey=True):
            for group in grouped(panel.rows, self.groups):
                if group.title in self.levels:
                    _draw_level(axes, column, group, self.levels.index(group.title))
                    continue
                bars = grouped(group.rows, (self.bars,))
                width = min(0.25, 0.8 / len(bars))
                for number, bar in enumerate(bars):
                    x = places.index(group.title) + (number - (len(bars) - 1) / 2) * width
                    _draw_bar(axes, column, bar, x, width, colors[bar.title], as_points=ratio < _NEAR)
            axes.set_yscale("log" if ratio > _FAR else "linear")
            if not ratio:
                axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", va="center")
            axes.set_xticks(range(len(places)), places, rotation=20 if len(places) > 3 else 0)
            axes.set(title=panel.title, xlabel=", ".join(self.groups), xlim=(-0.5, len(places) - 0.5))
            axes.grid(axis="x", visible=False)
        strip.axes[0].set_ylabel(self.column)
        _add_legend(strip, strip.axes, title=self.bars, loc="outside right upper")

    def _ratio(self, column: Column, rows: Sequence[Row]) -> float:
        """Return the largest mean over the smallest; 0 without means, a middling ratio if one is not above zero."""
        found = grouped(rows, (*self.panels, *self.groups, self.bars))
        means = [mean for mean, _ in (bar.summary(column) for bar in found) if mean is not None]
        if not means:
            return 0.0
        return max(means) / min(means) if min(means) > 0 else (_NEAR + _FAR) / 2


@dataclass(frozen=True)
class Lines(Figure):
    """Columns over a label whose values are numbers, with their spread, and published values as diamonds.

    Rows that differ in other labels alone are one point, their mean.

    Args:
        columns: titles of columns, each with a plot of its own.
        x: the label.
        lines: labels whose values are lines of a plot.
        panels: labels whose values have a plot each.
        levels: values of the label that are not numbers, as dashed lines across the plot.
        logarithmic: whether the axis doubles from tick to tick.
    """

    columns: tuple[str, ...]
    x: str
    lines: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    logarithmic: bool = False

    def draw(self, strip: Any, study: Study, rows: Sequence[Row]) -> None:
        plots = [(study.column(title), panel) for title in self.columns for panel in grouped(rows, self.panels)]
        for axes, (column, panel) in _plots(strip, plots):
            numbers = [row for row in panel.rows if row.case.labels[self.x] not in self.levels]
            for line in grouped(numbers, self.lines):
                points = sorted((float(point.title), point) for point in grouped(line.rows, (self.x,)))
                _draw_line(axes, column, line.title, points)
            for level in grouped([row for row in panel.rows if row not in numbers], (self.x,)):
                _draw_level(axes, column, level, self.levels.index(level.title))
            if self.logarithmic:
                axes.set_xscale("log", base=2)
            values = sorted({float(row.case.labels[self.x]) for row in numbers})
            axes.set_xticks(values, [f"{value:g}" for value in values])
            axes.set(xlabel=panel.title or self.x, ylabel=column.title)
            _add_legend(axes, [axes])


@dataclass(frozen=True)
class Curves(Figure):
    """Logged numbers over training, of the runs with the first seed.

    Args:
        series: name in metrics.jsonl; ``*`` stands for anything, and every name that matches is a line.
        ylabel: label of the axis.
        panels: labels whose values have a plot each; without any, all rows are in one.
        legend: whether lines are named.
        scale: factor, such as 100 for percent.
        marks_least: whether the least value of each line is marked.
    """

    series: str
    ylabel: str
    panels: tuple[str, ...] = ()
    legend: bool = True
    scale: float = 1.0
    marks_least: bool = False

    def draw(self, strip: Any, study: Study, rows: Sequence[Row]) -> None:
        for axes, panel in _plots(strip, grouped(rows, self.panels)):
            for row in panel.rows:
                labels = [value for label, value in row.case.labels.items() if label not in self.panels]
                for name, (steps, values) in row.runs[0].series(self.series).items():
                    words = [*labels, name] if "*" in self.series else labels
                    scaled = [self.scale * value for value in values]
                    (line,) = axes.plot(steps, scaled, linewidth=1, label=", ".join(words))
                    if self.marks_least:
                        step, least = min(zip(steps, scaled, strict=True), key=lambda point: point[1])
                        axes.plot(step, least, "o", color=line.get_color())
                        axes.annotate(f"{least:.3g}", (step, least), fontsize="small", va="top")
            axes.set(xlabel="step", title=panel.title)
            if self.legend:
                _add_legend(axes, [axes])
        strip.axes[0].set_ylabel(self.ylabel)


@dataclass(frozen=True)
class Gains(Figure):
    """The gain of each row over the baseline of the study, over the factor by which another column is smaller than there.

    Args:
        column: title of the column whose gain is shown.
        over: title of the column that gets smaller.
        panels: labels whose values have a plot each.
    """

    column: str
    over: str
    panels: tuple[str, ...] = ()

    def draw(self, strip: Any, study: Study, rows: Sequence[Row]) -> None:
        assert study.baseline is not None
        column, over = study.column(self.column), study.column(self.over)
        for axes, panel in _plots(strip, grouped(rows, self.panels), sharey=True):
            for row in grouped(panel.rows):
                other = baseline_of(row, grouped(rows), *study.baseline)
                before, after = (each and each.summary(over).mean for each in (other, row))
                if other is not None and before and after:
                    name = ", ".join(value for label, value in row.labels.items() if label not in self.panels)
                    axes.plot(before / after, row.gain(other, column).mean, "o", label=name)
            axes.set(title=panel.title, xlabel=f"{self.over}: baseline over row", xscale="log")
            _add_legend(axes, [axes])
        strip.axes[0].set_ylabel(f"gain in {self.column}")


@dataclass(frozen=True)
class Profiles(Figure):
    """Curves and distributions that a probe found, of the runs with the first seed.

    Args:
        measure: name of the probe in the study.
        curves: paths in its scores to ``{"x": [...], "y": [...]}``, each with a plot of its own and a line for each row.
        shades: the same for distributions, filled from zero.
        xlabel: label of the axes.
    """

    measure: str
    curves: tuple[str, ...] = ()
    shades: tuple[str, ...] = ()
    xlabel: str = ""

    def draw(self, strip: Any, study: Study, rows: Sequence[Row]) -> None:
        for number, (axes, paths) in enumerate(
            _plots(strip, list(zip(*filter(None, (self.curves, self.shades)), strict=True)))
        ):
            filled = axes.twinx() if len(paths) > 1 else axes
            for color, row in enumerate(rows):
                style = {"label": ", ".join(row.case.labels.values()), "color": series_color(color)}
                if self.curves and (curve := row.runs[0].score(self.measure, self.curves[number])):
                    axes.plot(curve["x"], curve["y"], linewidth=1, **style)
                if self.shades and (shade := row.runs[0].score(self.measure, self.shades[number])):
                    filled.fill_between(shade["x"], shade["y"], alpha=0.2, **style)
            title = " over ".join(path.replace(".", " ").replace("_", " ") for path in paths)
            axes.set(title=title, xlabel=self.xlabel)
            if filled is not axes:  # both scales begin at zero
                axes.set_ylim(0)
                filled.set_ylim(0)
            _add_legend(axes, [axes if self.curves else filled])


@dataclass(frozen=True)
class HeatMap(Figure):
    """What a probe found over two axes, ``{"x": [...], "y": [...], "z": [[...]]}`` with a row of z for each y; a plot a row."""

    measure: str
    path: str
    xlabel: str
    ylabel: str

    def draw(self, strip: Any, study: Study, rows: Sequence[Row]) -> None:
        for axes, row in _plots(strip, rows):
            found = row.runs[0].score(self.measure, self.path)
            if found:
                extent = (found["x"][0], found["x"][-1], found["y"][0], found["y"][-1])
                strip.colorbar(axes.imshow(found["z"], origin="lower", extent=extent, aspect="auto"))
            axes.grid(visible=False)
            axes.set(title=", ".join(row.case.labels.values()), xlabel=self.xlabel, ylabel=self.ylabel)


@dataclass(frozen=True)
class Functions(Figure):
    """Formulas, which need no run."""

    xlabel: str
    ylabel: str
    start: float
    end: float
    curves: dict[str, Callable[[float], float]] = field(default_factory=dict)

    def draw(self, strip: Any, study: Study, rows: Sequence[Row]) -> None:
        ((axes, _),) = _plots(strip, [()])
        x = [self.start + (self.end - self.start) * number / (_POINTS - 1) for number in range(_POINTS)]
        for name, function in self.curves.items():
            axes.plot(x, [function(value) for value in x], label=name)
        axes.set(xlabel=self.xlabel, ylabel=self.ylabel)
        _add_legend(axes, [axes])


@dataclass(frozen=True)
class StudyDrawing(Drawing):
    """All figures of a study as one drawing, with legends within."""

    study: Study
    rows: Sequence[Row]
    title: str = ""
    wide: bool = True

    @property
    def size(self) -> tuple[float, float]:
        return 10.0, 3.2 * len(self.study.figures)

    def draw(self, figure: Any) -> None:
        strips = figure.subfigures(len(self.study.figures), 1, squeeze=False)[:, 0]
        for strip, each in zip(strips, self.study.figures, strict=True):
            each.draw(strip, self.study, self.rows)


def _plots(strip: Any, items: Sequence[Any], sharey: bool = False) -> list[tuple[Any, Any]]:
    """Return a plot for each item, side by side, in the colors of a report page."""
    all_axes = strip.subplots(1, len(items), squeeze=False, sharey=sharey)[0]
    for axes in all_axes:
        axes.set_prop_cycle(color=[series_color(number) for number in range(COLORS)])
    return list(zip(all_axes, items, strict=True))


def _draw_bar(axes: Any, column: Column, bar: Group, x: float, width: float, color: str, *, as_points: bool) -> None:
    mean, spread = bar.summary(column)
    if mean is not None and as_points:
        axes.errorbar(x, mean, spread, fmt="o", color=color, capsize=3, label=bar.title)
    elif mean is not None:
        axes.bar(x, mean, width, yerr=spread, color=color, ecolor=INK, capsize=2, label=bar.title)
    _draw_published(axes, [(x, bar.published(column))])


def _draw_line(axes: Any, column: Column, name: str, points: Sequence[tuple[float, Group]]) -> None:
    found = [(x, *point.summary(column)) for x, point in points]
    done = [(x, mean, spread or 0.0) for x, mean, spread in found if mean is not None]
    if done:
        x, mean, spread = zip(*done, strict=True)
        axes.errorbar(x, mean, yerr=spread, marker="o", capsize=2, label=name or "_nolegend_")
    _draw_published(axes, [(x, point.published(column)) for x, point in points])


def _draw_level(axes: Any, column: Column, level: Group, number: int) -> None:
    mean, published = level.summary(column).mean, level.published(column)
    color = series_color(COLORS - 1 - number)
    if mean is not None:
        axes.axhline(mean, linestyle="--", color=color, label=level.title)
    if published is not None:
        axes.plot(0.99, published, "D", color=color, markersize=3, transform=axes.get_yaxis_transform())


def _draw_published(axes: Any, points: Sequence[tuple[float, float | None]]) -> None:
    known = [(x, value) for x, value in points if value is not None]
    if known:
        axes.plot(*zip(*known, strict=True), "D", color=INK, markersize=3, label="published")


def _add_legend(owner: Any, all_axes: Sequence[Any], **options: Any) -> None:
    """Name what is drawn in ``all_axes``, each name once, in a legend of a plot or of a strip."""
    named = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in all_axes]
    entries = {label: handle for pairs in named for handle, label in pairs}
    if entries:
        owner.legend(entries.values(), entries.keys(), **options)
