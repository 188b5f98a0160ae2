"""Markdown tables with one line below them that says what is measured and where the numbers lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Rows = list[list[str]]


def table(header: list[str], rows: Rows, caption: str, numbers: bool = True) -> str:
    """A Markdown table with its caption below it; all columns but the first are ``numbers``, or text."""
    lines = [header, ["---", *["---:" if numbers else "---"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{caption}"


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
