"""A study as a page: its document with tables that can be sorted, its drawing, and what it cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from patchprint.common.table import Table
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.page import Code, Page, Part, Section, Text
from patchprint.report.run_cost import origin


def page(document: str, drawing: Path | None, result: dict[str, Any]) -> Page:
    """The page of a study out of the Markdown that `_tables.document` wrote; ``drawing`` is its SVG."""
    heading, *blocks = document.strip().split("\n\n")
    name, _, summary = heading.removeprefix("# ").partition(": ")
    parts: list[Part] = [_part(block) for block in blocks]
    figures: list[Part] = [] if drawing is None else [EmbeddedImage.from_svg(drawing, f"The numbers of {name}, drawn")]
    run = result["run"]
    cost: list[Part] = [Text(f"{run['seconds']:,.0f} seconds."), Code(run["command"])]
    return Page(
        f"{summary[:1].upper()}{summary[1:]}",
        lead=f"patchprint study {name}",
        sections=[
            Section("Results", parts),
            *([Section("Drawing", figures)] if figures else []),
            Section("Cost and commands", cost),
        ],
        origin=origin([run]),
    )


def _part(block: str) -> Part:
    """A table, or text without its stars."""
    lines = block.splitlines()
    if not lines[0].startswith("|"):
        return Text(re.sub(r"\*\*", "", block))
    header, _, *rows = map(_cells, lines)
    return Table(header, rows)


def _cells(line: str) -> list[str]:
    """What stands between the bars of a table's line; a bar that belongs to a cell has a backslash before it."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
