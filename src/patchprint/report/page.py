"""One self-contained HTML page: text, tables and pictures in a single file that can be sent by mail."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchprint.extras import require
from patchprint.files import write_text

_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ page.title }}</title>
<style>
:root { color-scheme: light dark; --ink: #1c2530; --paper: #ffffff; --faint: #68727d; --line: #dde2e7; --mark: #0b6b4f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --paper: #14181d; --faint: #97a1ab; --line: #333b44; --mark: #5fd0a8; }
}
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
       font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p.lead { color: var(--faint); margin: 0 0 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .75rem 0; }
caption { caption-side: bottom; text-align: left; color: var(--faint); font-size: .875rem; padding-top: .4rem; }
th, td { padding: .3rem .9rem .3rem 0; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; color: var(--faint); font-size: .875rem; }
td.best { font-weight: 700; color: var(--mark); }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption, footer { color: var(--faint); font-size: .875rem; } footer { margin-top: 3rem; }
pre { overflow-x: auto; padding: .75rem 1rem; border: 1px solid var(--line); border-radius: 4px; font-size: .875rem; }
</style>
</head>
<body>
<h1>{{ page.title }}</h1>
{% if page.lead %}<p class="lead">{{ page.lead }}</p>{% endif %}
{% for section in page.sections %}
<section>
<h2>{{ section.heading }}</h2>
{% for text in section.paragraphs %}<p>{{ text }}</p>
{% endfor %}
{% for table in section.tables %}
<div class="scroll"><table>
<caption>{{ table.caption }}</caption>
<thead><tr>{% for cell in table.header %}<th scope="col">{{ cell }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}<tr>
{%- for cell in row %}<td{% if (loop.index0, cell) in table.best %} class="best"{% endif %}>{{ cell }}</td>{% endfor -%}
</tr>
{% endfor %}</tbody>
</table></div>
{% endfor %}
{% for figure in section.figures %}
<figure><img src="{{ figure.source }}" alt="{{ figure.caption }}"><figcaption>{{ figure.caption }}</figcaption></figure>
{% endfor %}
{% if section.code %}<pre>{{ section.code }}</pre>{% endif %}
</section>
{% endfor %}
{% if page.footer %}<footer>{{ page.footer }}</footer>{% endif %}
</body>
</html>
"""


@dataclass(frozen=True)
class Table:
    """Cells as strings; ``best`` holds (column, cell) pairs to emphasise."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    best: frozenset[tuple[int, str]] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A picture as a data URI."""

    source: str
    caption: str

    @staticmethod
    def from_file(path: str | Path, caption: str) -> Figure:
        kind = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".svg": "svg+xml"}[Path(path).suffix.lower()]
        return Figure(_data_uri(Path(path).read_bytes(), kind), caption)

    @staticmethod
    def from_plot(figure: Any, caption: str) -> Figure:
        """A matplotlib figure as vector graphics."""
        buffer = io.BytesIO()
        figure.savefig(buffer, format="svg", bbox_inches="tight")
        return Figure(_data_uri(buffer.getvalue(), "svg+xml"), caption)


@dataclass(frozen=True)
class Section:
    heading: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    code: str = ""


@dataclass(frozen=True)
class Page:
    title: str
    lead: str = ""
    sections: Sequence[Section] = field(default_factory=list)
    footer: str = ""


def best_of(column: int, cells: Sequence[str], values: Sequence[float], lower_is_better: bool) -> tuple[int, str]:
    """The entry for ``Table.best`` of one column."""
    choose = min if lower_is_better else max
    return column, cells[values.index(choose(values))]


def render(page: Page) -> str:
    """The page as HTML; every text is escaped."""
    environment = require("jinja2", extra="images").Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_TEMPLATE).render(page=page)


def write(page: Page, path: str | Path) -> None:
    write_text(path, render(page))


def _data_uri(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
