"""stdout carries the result, as JSON or as text for people; stderr carries everything else."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any


def emit(result: Any, as_json: bool, text: str) -> None:
    """Print ``result`` as JSON, or ``text`` where a person reads."""
    print(json.dumps(result, indent=2, ensure_ascii=False) if as_json else text)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Plain aligned columns: the first to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def say(message: str) -> None:
    """A line for the person at the terminal, on stderr."""
    print(message, file=sys.stderr)
