"""Tables of speed, made from what ``patchprint bench`` wrote to ``results/speed/``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from patchprint.networks.engines import ENGINES
from patchprint.speed import growth_table, stage_table
from tools.markdown import read, table

_DIM = 128  # of the descriptors that are matched
_PATCH_BYTES = 32 * 32 * 4


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
    return f"{machine['cores']} cores, {machine['cpu']}" + (f", {busy} busy" if busy else "")


def growth(file: str) -> Callable[[Path], str]:
    """The maker of the table of time and memory by the number of keypoints."""

    def make(results: Path) -> str:
        result = read(results / "speed" / file)
        header, rows = growth_table(result["scores"])
        powers = [
            f"{score['power_of_time']:.2f}" if row is score["rows"][-1] else ""
            for score in result["scores"].values()
            for row in score["rows"]
        ]
        rows = [[*row, power] for row, power in zip(rows, powers, strict=True)]
        caption = f"Time by keypoints, and the power with which it grows; {_machine(result)}: results/speed/{file}."
        return table([*header, "power"], rows, caption)

    return make


def limits(file: str) -> Callable[[Path], str]:
    """The maker of the table that says how much of what the machine can do each stage uses."""

    def make(results: Path) -> str:
        scores = (result := read(results / "speed" / file))["scores"]
        machine = scores["limits"]["contenders"]
        product = {
            kind: machine[f"matrix product, {kind}"]["multiply_adds"]
            / machine[f"matrix product, {kind}"]["best_ms"]
            / 1e6
            for kind in ("float32", "bfloat16")
        }
        limit = product | {"cuda": product["bfloat16"]}
        copy = machine["copy of memory"]["bytes"] / machine["copy of memory"]["best_ms"] / 1e6
        rows = [
            *([f"matrix product, {kind}", f"{rate:,.0f} G multiply-adds/s", ""] for kind, rate in product.items()),
            ["copy of memory", f"{copy:,.1f} GB/s", ""],
        ]
        for score in scores["describe"]["contenders"].values():
            if score.get("engine") in limit:
                rate = score["multiply_adds"] * score["patches_per_second"] / 1e9
                share = rate / limit[score["engine"]]
                called = f"describe, {score['model']} in {score['engine'].replace('cuda', 'bfloat16')}"
                rows.append([called, f"{rate:,.0f} G multiply-adds/s", f"{share:.0%}"])
        first, second = result["data"]["keypoints"][:2]
        found = scores["match"]["contenders"]["patchprint, floats"]["best_ms"]
        rate = first * second * _DIM / found / 1e6
        rows.append(["match, floats", f"{rate:,.0f} G multiply-adds/s", f"{rate / product['float32']:.0%}"])
        rate = scores["sample"]["contenders"]["patchprint, pyramid kept"]["patches_per_second"] * _PATCH_BYTES / 1e9
        rows.append(["sample, patches written", f"{rate:.2f} GB/s", f"{rate / copy:.0%}"])
        return table(["", "reached", "of the limit"], rows, f"{_machine(result)}: results/speed/{file}.")

    return make


def folder(file: str) -> Callable[[Path], str]:
    """The maker of the table of a folder of photos: what each station takes, and how many photos go through."""

    def make(results: Path) -> str:
        result = read(results / "speed" / file)
        scores, cores = result["scores"], result["settings"]["cores"]
        on_gpu = {"describe"}
        rows = []
        for name, taken in scores["stations_ms"].items():
            most = 1000 / taken * (1 if name in on_gpu else cores)
            rows.append([name, f"{taken:.1f}", "GPU" if name in on_gpu else "one core", f"{most:,.0f}"])
        if "detected_per_second" in scores:
            rows.append(["detect alone", "", f"{cores} cores at once", f"{scores['detected_per_second']:.1f}"])
        rows.append(["all together", "", f"{cores} cores and the GPU", f"{scores['photos_per_second']:.1f}"])
        header = ["", "ms a photo", "by", "photos/s at most"]
        title = f"{result['data']['sizes'][0]} pixels, {result['data']['keypoints'][0]} keypoints"
        return table(header, rows, f"{title}; {result['run']['machine']['gpu']}: results/speed/{file}.")

    return make


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
