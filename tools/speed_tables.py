"""Tables of speed, made from what ``patchprint bench`` wrote to ``results/speed/``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchprint.engines import ENGINES
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


def engines(results: Path) -> str:
    """mAP on Oxford by model and engine."""
    found = [read(path) for path in sorted((results / "engines").glob("oxford-*.json"))]
    names = list(dict.fromkeys(result["model"]["name"] for result in found))
    columns = [name for name in ENGINES if any(result["model"]["engine"] == name for result in found)]
    scores = {(result["model"]["name"], result["model"]["engine"]): result["scores"]["map"] for result in found}
    rows = [
        [f"`{name}`", *(f"{scores[name, engine]:.4f}" if (name, engine) in scores else "" for engine in columns)]
        for name in names
    ]
    return table(["", *columns], rows, "mAP on the six Oxford sequences by engine: results/engines/.")
