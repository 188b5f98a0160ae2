"""Time and memory by the number of keypoints, from 500 to 100,000.

Each model is measured in a process of its own, whose largest resident size counts (it includes Python and torch), upwards, so
that the size after a count is that count's.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import provenance
from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.progress import progress
from patchprint.common.provenance import Result
from patchprint.common.types import Keypoints
from patchprint.features.model import DEFAULT_MODEL, Model, load
from patchprint.networks.engines import AUTO
from patchprint.pipelines.bench import BenchImages
from perf.speed.contest._images import open_images, save_images

COUNTS = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
_REPEATS = 5  # of small counts; a large one is its own mean


def growth(
    data: BenchImages,
    models: Sequence[str] = (),
    counts: Sequence[int] = COUNTS,
    engine: str = AUTO,
    device: str = "auto",
) -> Result:
    """Seconds and peak memory of each model at each number of keypoints, and the power that the seconds grow by."""
    started, place = time.monotonic(), choose_device(device)
    if len(counts) < 2 or min(counts) < 1:
        raise UserError("growth needs at least two counts of keypoints")
    ordered = sorted(counts)
    for model in models:
        load(model)  # refuses what is not there before anything is measured
    scores = {}
    for model in progress(list(models) or [DEFAULT_MODEL], "measuring growth", "model"):
        rows = _in_own_process(data, model, engine, place, ordered)
        scores[model] = {"engine": engine, "rows": rows, "power_of_time": _power(rows)}
    settings = {"device": place.type, "threads": torch.get_num_threads(), "counts": list(ordered)}
    facts = data.facts() | {"note": "the keypoints of the first image, repeated a little apart"}
    return provenance.record("speed growth", settings=settings, scores=scores, data=facts, started=started)


def measure(
    image: np.ndarray, keypoints: Keypoints, model: Model, counts: Sequence[int], device: torch.device
) -> list[Any]:
    """A row for each count, in ascending order."""
    rows = []
    model.describe_keypoints(image, _many(keypoints, counts[0]))  # warms up
    for count in counts:
        many = _many(keypoints, count)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        seconds = []
        for _ in range(max(1, min(_REPEATS, _REPEATS * 2000 // count))):
            before = time.perf_counter()
            model.describe_keypoints(image, many)  # its descriptors are on the CPU when it returns
            seconds.append(time.perf_counter() - before)
        row = {"keypoints": count, "seconds": round(min(seconds), 5), "peak_mib": _peak()}
        if device.type == "cuda":
            row["gpu_peak_mib"] = round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
        rows.append(row)
    return rows


def _in_own_process(
    data: BenchImages, model: str, engine: str, device: torch.device, counts: Sequence[int]
) -> list[dict[str, Any]]:
    given = json.dumps({"model": model, "engine": engine, "device": str(device), "counts": list(counts)})
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "images.npz"
        save_images(data, saved)
        command = [sys.executable, "-c", f"import {__name__} as part; part.main()", str(saved), given]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def _many(keypoints: Keypoints, count: int) -> Keypoints:
    """So many keypoints: those that there are, again and again, each time up to three pixels away."""
    rng = np.random.default_rng(0)
    chosen = keypoints[torch.arange(count) % len(keypoints)]
    moved = chosen.xy + torch.from_numpy(rng.uniform(-3, 3, (count, 2))).float()
    return Keypoints(moved, chosen.scale, chosen.angle)


def _power(rows: Sequence[dict[str, Any]]) -> float:
    """p where time grows as keypoints ** p, by least squares on logarithms: 1 is linear, below 1 a fixed part matters."""
    counts, seconds = (np.log([row[name] for row in rows]) for name in ("keypoints", "seconds"))
    return round(float(np.polyfit(counts, seconds, 1)[0]), 3)


def _peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def main() -> None:
    """Measure one model in a process of its own: images and settings are its arguments, the rows its output."""
    data, given = open_images(sys.argv[1]), json.loads(sys.argv[2])
    device = torch.device(given["device"])
    model = load(given["model"], device, engine=given["engine"])
    print(json.dumps(measure(data.images[0], data.keypoints[0], model, given["counts"], device)))
