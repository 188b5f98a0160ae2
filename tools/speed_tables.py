"""Tables of speed, made from what ``patchprint bench`` wrote to ``results/speed/``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchprint.speed import stage_table
from tools.markdown import read, table


def stage(name: str, file: str) -> Callable[[Path], str]:
    """The maker of the table of one stage out of one file in ``results/speed``."""

    def make(results: Path) -> str:
        result = read(results / "speed" / file)
        found = result["scores"][name]
        header, rows = stage_table(found)
        title = found["title"][0].upper() + found["title"][1:]
        return table(header, rows, f"{title}; {_machine(result)}: results/speed/{file}.")

    return make


def _machine(result: dict[str, Any]) -> str:
    machine, settings = result["run"]["machine"], result["settings"]
    busy = settings.get("busy_cores", 0)
    if settings["device"] == "cuda":
        return machine["gpu"]
    return f"{machine['cores']} cores, {machine['cpu']}" + (f", {busy} kept busy by another process" if busy else "")
