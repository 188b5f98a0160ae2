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


def limits(file: str) -> Callable[[Path], str]:
    """The maker of a table of how near each network is to the fastest product of matrices of the same run."""

    def make(results: Path) -> str:
        result = read(results / "speed" / file)
        machine = result["scores"]["limits"]["contenders"]
        peak = {kind: _billions(machine[f"matrix product, {kind}"]) for kind in ("float32", "bfloat16")}
        rows = [[f"product of large matrices, {kind}", f"{value:,.0f}", "1"] for kind, value in peak.items()]
        for name, score in result["scores"]["describe"]["contenders"].items():
            if "multiply_adds" in score:
                kind = "float32" if score["engine"] in ("float32", "onnxruntime") else "bfloat16"
                done = score["multiply_adds"] * score["patches_per_second"] / 1e9
                rows.append([name, f"{done:,.0f}", f"{done / peak[kind]:.2f} of {kind}"])
        header = ["", "billion multiply-adds a second", "part of the limit"]
        return table(
            header, rows, f"Networks against products of large matrices; {_machine(result)}: results/speed/{file}."
        )

    return make


def _billions(score: dict[str, Any]) -> float:
    return score["multiply_adds"] / score["best_ms"] / 1e6
