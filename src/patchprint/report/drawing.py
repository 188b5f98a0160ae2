"""Drawings of charts as SVG inside the page: what is seen without scripts, and on paper.

matplotlib draws in stand-in colors, which become the page's own, so that a drawing is light or dark with the page.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchprint.common.optional import require

COLORS = 8  # of the palette in page.css
INK, GRID = "#010001", "#010002"
_SALT = itertools.count()
_STYLE = Path(__file__).with_name("assets") / "page.css"


def series_color(number: int) -> str:
    """The stand-in for a color of the palette."""
    return f"#0101{number % COLORS:02x}"


def svg(draw: Callable[[Any], None], width: float = 6.4, height: float = 3.1) -> str:
    """What ``draw`` draws into a matplotlib figure, as an element of a page; it is decoration where its text is elsewhere."""
    matplotlib = require("matplotlib", extra="images")
    figures = require("matplotlib.figure", extra="images")
    import io

    style = {
        "svg.fonttype": "none",
        # Names inside of one drawing must not be those of another on the same page.
        "svg.hashsalt": f"patchprint-{next(_SALT)}",
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
        "lines.linewidth": 1.6,
    }
    with matplotlib.rc_context(style):
        figure = figures.Figure(figsize=(width, height), layout="constrained", facecolor="none")
        draw(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _as_part_of_a_page(buffer.getvalue())


def as_file(part: str) -> str:
    """What `svg` drew as a file of its own, light or dark with whatever shows it."""
    names = set(re.findall(r"var\(--([\w-]+)\)", part))
    palette = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", _STYLE.read_text("utf-8"))
    light, dark = (
        "".join(f"--{color[0]}:{color[shade]};" for color in palette if color[0] in names) for shade in (1, 2)
    )
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', part).groups()  # type: ignore[union-attr]
    head, _, body = part.replace(
        '<svg aria-hidden="true" ', f'<svg width="{width}pt" height="{height}pt" ', 1
    ).partition(">")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}>\n {style}{body}'


def _as_part_of_a_page(text: str) -> str:
    """Without what belongs to a file of its own, in the colors of the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[\w.]+_\d+"', "<g", text)
    text = re.sub(r'(<svg [^>]*?)width="[^"]*" height="[^"]*"', r"\1", text, count=1)
    text = text.replace("<svg ", '<svg aria-hidden="true" ', 1)
    text = re.sub("#0101([0-9a-f]{2})", lambda found: f"var(--series-{int(found[1], 16)})", text)
    return text.replace(INK, "var(--muted)").replace(GRID, "var(--line)")
