"""Charts of a page: lines, bars in groups, lines that move through time, and dots with their names.

Each but the last is drawn twice from the same numbers: as an SVG that needs no script, and by uPlot, where the reader finds the
numbers under the pointer or with the arrow keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from patchprint.report import drawing
from patchprint.report.naming import put_names
from patchprint.report.thinning import Thinned

_SCRIPTS = ("uplot/uPlot.iife.min.js", "charts.js")
_STYLES = ("uplot/uPlot.min.css",)
_DIGITS = 6
_SHOWN_FRAMES = 6
_MARKERS = ("o", "s")  # signs of a scatter

Values = Sequence[float | None]


@dataclass(frozen=True)
class Line:
    """One curve; ``low`` and ``high`` are the edges of a band around it, ``color`` a place in the palette, by default its
    place in the chart. ``filled``: down to the axis, in steps, as distributions are."""

    label: str
    x: Sequence[float]
    y: Values
    low: Values | None = None
    high: Values | None = None
    color: int | None = None
    dashed: bool = False
    filled: bool = False

    @staticmethod
    def of(label: str, curve: Thinned, color: int | None = None, dashed: bool = False) -> Line:
        return Line(label, curve.x, curve.y, curve.low, curve.high, color, dashed)


@dataclass(frozen=True)
class Chart:
    """Lines over a common axis."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    note: str = ""
    logarithmic: bool = False
    y_range: tuple[float, float] | None = None
    wide: bool = False

    template: ClassVar[str] = "chart.html"
    scripts: ClassVar[tuple[str, ...]] = _SCRIPTS
    styles: ClassVar[tuple[str, ...]] = _STYLES

    def data(self) -> dict[str, Any]:
        """For charts.js: one axis of all places, and the values of each line there, null where it has none."""
        places = sorted({x for line in self.lines for x in line.x if not self.logarithmic or x > 0})
        series = [
            _series(line, number, places) | {"dashed": line.dashed, "filled": line.filled}
            for number, line in enumerate(self.lines)
        ]
        return _labels(self) | {
            "kind": "lines",
            "x": _rounded(places),
            "series": series,
            "logarithmic": self.logarithmic,
            "yRange": self.y_range,
        }

    def svg(self) -> str:
        return drawing.svg(self._draw)

    def legend(self) -> list[tuple[str, int]]:
        return [(line.label, _color(line, number)) for number, line in enumerate(self.lines)]

    def _draw(self, figure: Any) -> None:
        axes = figure.subplots()
        for number, line in enumerate(self.lines):
            _draw_line(axes, line, drawing.series_color(_color(line, number)))
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        if self.logarithmic:
            axes.set_xscale("log")
        if self.y_range is not None:
            axes.set_ylim(*self.y_range)


@dataclass(frozen=True)
class Bars:
    """A value for each of several names along the axis, and for each of several contenders side by side."""

    title: str
    y_label: str
    names: Sequence[str]
    values: Mapping[str, Values]
    note: str = ""
    wide: bool = True
    x_label: str = ""

    template: ClassVar[str] = "chart.html"
    scripts: ClassVar[tuple[str, ...]] = _SCRIPTS
    styles: ClassVar[tuple[str, ...]] = _STYLES

    def data(self) -> dict[str, Any]:
        series = [
            {"label": label, "color": number % drawing.COLORS, "y": _rounded(values)}
            for number, (label, values) in enumerate(self.values.items())
        ]
        return _labels(self) | {"kind": "bars", "names": list(self.names), "series": series}

    def svg(self) -> str:
        return drawing.svg(self._draw, width=10, height=3.1)

    def legend(self) -> list[tuple[str, int]]:
        return [(label, number % drawing.COLORS) for number, label in enumerate(self.values)]

    def _draw(self, figure: Any) -> None:
        axes = figure.subplots()
        width = 0.8 / len(self.values)
        for number, values in enumerate(self.values.values()):
            places = [place - 0.4 + (number + 0.5) * width for place in range(len(self.names))]
            heights = [0.0 if value is None else value for value in values]
            axes.bar(places, heights, 0.9 * width, color=drawing.series_color(number))
        shown = [name if len(name) <= 14 else name[:13] + "…" for name in self.names]
        axes.set_xticks(range(len(shown)), shown, rotation=0 if len(shown) < 9 else 40)
        axes.grid(axis="x", visible=False)
        axes.set(ylabel=self.y_label)


@dataclass(frozen=True)
class Frame:
    """What the lines of a `Moving` chart are at one moment: a list of values for each."""

    label: str
    values: Sequence[Values]


@dataclass(frozen=True)
class Moving:
    """Lines whose values change from one moment to the next; the reader moves a slider, and the last moment is shown first.

    ``lines`` give labels and looks; their own values are not used. The SVG shows some moments side by side.
    """

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    lines: Sequence[Line]
    frames: Sequence[Frame]
    note: str = ""
    moment: str = "step"
    wide: bool = True

    template: ClassVar[str] = "chart.html"
    scripts: ClassVar[tuple[str, ...]] = _SCRIPTS
    styles: ClassVar[tuple[str, ...]] = _STYLES

    def data(self) -> dict[str, Any]:
        series = [
            {"label": line.label, "color": _color(line, number), "dashed": line.dashed, "filled": line.filled}
            for number, line in enumerate(self.lines)
        ]
        frames = [
            {"label": frame.label, "values": [_rounded(values) for values in frame.values]} for frame in self.frames
        ]
        return _labels(self) | {
            "kind": "moving",
            "x": _rounded(self.x),
            "series": series,
            "frames": frames,
            "moment": self.moment,
        }

    def svg(self) -> str:
        return drawing.svg(self._draw, width=10, height=4.4 if len(self.shown()) > 3 else 2.5)

    def legend(self) -> list[tuple[str, int]]:
        return [(line.label, _color(line, number)) for number, line in enumerate(self.lines)]

    def shown(self) -> list[Frame]:
        """Of many frames, some that are spread over all, with the first and the last."""
        count = min(len(self.frames), _SHOWN_FRAMES)
        places = [round(number * (len(self.frames) - 1) / max(count - 1, 1)) for number in range(count)]
        return [self.frames[place] for place in places]

    def _draw(self, figure: Any) -> None:
        frames = self.shown()
        columns = min(len(frames), 3)
        grid = figure.subplots(-(-len(frames) // columns), columns, squeeze=False, sharex=True, sharey=True)
        for axes, frame in zip(grid.flat, frames, strict=False):
            for number, (line, values) in enumerate(zip(self.lines, frame.values, strict=True)):
                moved = Line(line.label, self.x, values, dashed=line.dashed, filled=line.filled)
                _draw_line(axes, moved, drawing.series_color(_color(line, number)))
            axes.set_title(f"{self.moment} {frame.label}")
        for axes in grid[-1]:
            axes.set_xlabel(self.x_label)
        for axes in list(grid.flat)[len(frames) :]:
            axes.set_axis_off()


@dataclass(frozen=True)
class Dots:
    """Places that belong together, joined by a line and named once; ``kinds`` number the signs of a `Scatter`."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    kinds: Sequence[int]
    color: int


@dataclass(frozen=True)
class Scatter:
    """Dots over an axis in powers of ten, their names beside them where there is room.

    ``signs`` and ``colors`` say what kinds of dots and which colors of the palette mean.
    """

    title: str
    x_label: str
    y_label: str
    dots: Sequence[Dots]
    signs: Sequence[str]
    colors: Sequence[str]
    note: str = ""
    wide: bool = True

    template: ClassVar[str] = "drawing.html"
    scripts: ClassVar[tuple[str, ...]] = ()
    styles: ClassVar[tuple[str, ...]] = ()

    def svg(self) -> str:
        return drawing.svg(self._draw, width=10, height=5.2)

    def file(self) -> str:
        """The drawing as a file of its own."""
        return drawing.as_file(self.svg())

    def _draw(self, figure: Any) -> None:
        axes = figure.subplots()
        axes.set_xscale("log")
        for dots in self.dots:
            color = drawing.series_color(dots.color)
            axes.plot(dots.x, dots.y, color=color, linewidth=1.0)
            for x, y, kind in zip(dots.x, dots.y, dots.kinds, strict=True):
                axes.plot(x, y, _MARKERS[kind], color=color, markersize=5.5)
        for kind, meaning in enumerate(self.signs):
            axes.plot([], [], _MARKERS[kind], color=drawing.INK, label=meaning)
        for number, meaning in enumerate(self.colors):
            axes.plot([], [], color=drawing.series_color(number), linewidth=5, label=meaning)
        axes.legend(loc="lower right", frameon=False)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.xaxis.set_minor_formatter(lambda value, _: f"{value:,g}" if f"{value:.0e}"[0] in "25" else "")
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        axes.margins(x=0.08, y=0.08)
        put_names(axes, [(dots.label, list(zip(dots.x, dots.y, strict=True))) for dots in self.dots])


def _draw_line(axes: Any, line: Line, color: str) -> None:
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
    if not points:
        return
    x, y = zip(*points, strict=True)
    if line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=color, alpha=0.18, linewidth=0)
    if line.filled:
        axes.fill_between(x, y, step="mid", color=color, alpha=0.3, linewidth=0)
    else:
        axes.plot(x, y, color=color, linestyle="--" if line.dashed else "-", marker="o" if len(points) == 1 else None)


def _series(line: Line, number: int, places: list[float]) -> dict[str, Any]:
    at = {x: place for place, x in enumerate(places)}

    def spread(values: Values) -> list[float | None]:
        found: list[float | None] = [None] * len(places)
        for x, value in zip(line.x, values, strict=True):
            if x in at:
                found[at[x]] = value
        return _rounded(found)

    found = {"label": line.label, "color": _color(line, number), "y": spread(line.y)}
    if line.low is not None and line.high is not None:
        found |= {"low": spread(line.low), "high": spread(line.high)}
    return found


def _color(line: Line, number: int) -> int:
    return (number if line.color is None else line.color) % drawing.COLORS


def _labels(chart: Chart | Bars | Moving) -> dict[str, Any]:
    return {"title": chart.title, "xLabel": chart.x_label, "yLabel": chart.y_label}


def _rounded(values: Values) -> list[float | None]:
    """As short as a reader can tell; whole numbers whole, what is no number as nothing."""
    return [None if value is None or not math.isfinite(value) else _short(value) for value in values]


def _short(value: float) -> float:
    return int(value) if float(value).is_integer() else float(f"{value:.{_DIGITS}g}")
