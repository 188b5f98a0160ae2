"""Markdown tables with the files and commands that their numbers come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Rows = list[list[str]]


def table(header: list[str], rows: Rows, source: str) -> str:
    """A Markdown table with its source below it."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{source}"


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def source_of(result: dict[str, Any], path: Path) -> str:
    """Command, seed, machine, date and file of a result."""
    run = result["run"]
    machine = run["machine"]["gpu"] or f"{run['machine']['cpu']}, {run['machine']['cores']} cores"
    seed = "" if result["seed"] is None else f"seed {result['seed']}, "
    return f"`{run['command']}`, {seed}{machine}, {run['date'][:10]}: {path.parent.name}/{path.name}."
