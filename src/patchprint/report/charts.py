"""Charts of a page: SVG that matplotlib draws, so that a page needs no script and can be printed.

Charts are drawn in stand-in colors that become those of ``page.css``: they are light or dark with the page.
"""

import functools
import io
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from patchprint.common.errors import require

COLORS = 8  # of the palette in page.css
INK, GRID = "#010001", "#010002"  # stand-ins
LONG = 300  # points, above which a line is drawn as its mean over so many stretches, before a faint line of all points
_NUMBERS = itertools.count()
_CSS = Path(__file__).with_name("assets") / "page.css"
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "grid.color": GRID,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
}

Values = Sequence[float | None]


def series_color(number: int) -> str:
    """Return the stand-in for a color of the palette."""
    return f"#0101{number % COLORS:02x}"


@dataclass(frozen=True)
class Line:
    """A curve.

    Args:
        label: in the legend.
        x: in ascending order.
        y: values; None and what is not finite are left out.
        color: a place in the palette; by default the place in the chart.
        dashed: whether the line is dashed.
        filled: whether the area down to the axis is filled in steps, as for distributions.
    """

    label: str
    x: Sequence[float]
    y: Values
    color: int | None = None
    dashed: bool = False
    filled: bool = False


class Drawing:
    """A part of a page that is one drawing with a legend below it."""

    template: ClassVar[str] = "chart.html"

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return 4.8, 2.6

    def legend(self) -> list[tuple[str, int]]:
        """Return labels and places in the palette; none where the drawing itself names what it shows."""
        return []

    def draw(self, figure: Any) -> None:
        """Draw into a matplotlib figure; the colors are `series_color`, ``INK`` and ``GRID``."""
        raise NotImplementedError

    def svg(self) -> str:
        """Return the SVG element of a page, with other identifiers than all others have."""
        return re.sub(r'( id="|href="#|url\(#)', rf"\1d{next(_NUMBERS)}-", self._element)

    @functools.cached_property
    def _element(self) -> str:
        """The same for the same drawing."""
        matplotlib, figures = (require(name, extra="images") for name in ("matplotlib", "matplotlib.figure"))
        buffer = io.StringIO()
        with matplotlib.rc_context(_STYLE | {"svg.hashsalt": "patchprint"}):
            figure = figures.Figure(figsize=self.size, layout="constrained", facecolor="none")
            self.draw(figure)
            figure.savefig(buffer, format="svg", metadata={"Date": None})
        text = buffer.getvalue()
        # What belongs to a file goes, and the colors of the page come in.
        text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
        text = re.sub(r'<g id="[\w.]+_\d+"', "<g", text[text.index("<svg") :])
        text = re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r'<svg aria-hidden="true" \1', text, count=1)
        text = re.sub("#0101([0-9a-f]{2})", lambda found: f"var(--series-{int(found[1], 16)})", text)
        return text.replace(INK, "var(--muted)").replace(GRID, "var(--line)")

    def file(self) -> str:
        """Return the text of an SVG file, light or dark with the program that shows it; the same for the same drawing."""
        element = self._element
        names = set(re.findall(r"var\(--([\w-]+)\)", element))
        palette = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", _CSS.read_text("utf-8"))
        light, dark = ("".join(f"--{each[0]}:{each[k]};" for each in palette if each[0] in names) for k in (1, 2))
        style = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
        width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', element).groups()  # type: ignore[union-attr]
        sized = element.replace('<svg aria-hidden="true" ', f'<svg width="{width}pt" height="{height}pt" ', 1)
        head, _, body = sized.partition(">")
        return f'<?xml version="1.0" encoding="utf-8"?>\n{head}>\n {style}{body}'


@dataclass(frozen=True)
class Chart(Drawing):
    """Lines over a common axis."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    note: str = ""
    logarithmic: bool = False
    y_range: tuple[float, float] | None = None
    wide: bool = False

    def legend(self) -> list[tuple[str, int]]:
        return _legend(self.lines)

    def draw(self, figure: Any) -> None:
        axes = figure.subplots()
        _draw_lines(axes, self.lines)
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        if self.logarithmic:
            axes.set_xscale("log", nonpositive="mask")
        else:
            axes.locator_params(axis="x", nbins=6)  # six-digit steps need room
        if self.y_range is not None:
            axes.set_ylim(*self.y_range)


def _legend(lines: Sequence[Line]) -> list[tuple[str, int]]:
    """Return labels of lines and their places in the palette: their own, or by default those in the chart."""
    places = [number if line.color is None else line.color for number, line in enumerate(lines)]
    return [(line.label, place % COLORS) for line, place in zip(lines, places, strict=True)]


def _draw_lines(axes: Any, lines: Sequence[Line]) -> None:
    for line, (_, place) in zip(lines, _legend(lines), strict=True):
        points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None and math.isfinite(y)]
        if not points:
            continue
        x, y = np.array(points, float).T
        color = series_color(place)
        if line.filled:
            axes.fill_between(x, y, step="mid", color=color, alpha=0.3, linewidth=0)
            continue
        if len(x) > LONG:
            axes.plot(x, y, color=color, alpha=0.25, linewidth=0.5)
            x, y = (np.array([part.mean() for part in np.array_split(values, LONG)]) for values in (x, y))
        axes.plot(x, y, color=color, linestyle="--" if line.dashed else "-", marker="o" if len(x) == 1 else None)
