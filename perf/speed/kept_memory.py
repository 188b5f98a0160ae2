"""Time one training step on a CPU with and without keeping freed memory (``devices.keep_freed_memory``).

python -m perf.speed.kept_memory --out results/speed/kept-memory.json

Each is timed in processes of its own, in turns; images are made up. The peak is that of the process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import files, provenance
from patchprint.common.devices import keep_freed_memory
from patchprint.training import assembly, resolve
from patchprint.training.step import TrainStep
from perf.speed.training_speed import synthetic_images

BATCH = {"sdgmnet": 256, "patchprint-fast-shipped": 512}  # points of a step, by recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/speed/kept-memory.json"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="steps that a process does, after one that is not timed")
    parser.add_argument("--only", nargs=2, metavar=("RECIPE", "WAY"), help="one timing, in this process")
    arguments = parser.parse_args()
    if arguments.only:
        recipe, way = arguments.only
        print(json.dumps(measure(recipe, way, arguments.steps)))
        return
    started, scores = time.monotonic(), {}
    for recipe in BATCH:
        found: dict[str, list[dict[str, float]]] = {"kept": [], "given back": []}
        for _ in range(arguments.rounds):
            for way, times in found.items():
                times.append(in_own_process(recipe, way, arguments.steps))
        scores[recipe] = summary(found)
        print(recipe, scores[recipe], flush=True)
    result = provenance.record(
        "kept-memory",
        settings={
            "batch": BATCH,
            "rounds": arguments.rounds,
            "steps": arguments.steps,
            "threads": torch.get_num_threads(),
        },
        scores=scores,
        data={"path": "synthetic photos"},
        seed=0,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def in_own_process(recipe: str, way: str, steps: int) -> dict[str, float]:
    command = [sys.executable, "-m", "perf.speed.kept_memory", "--only", recipe, way, "--steps", str(steps)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(recipe: str, way: str, steps: int) -> dict[str, float]:
    """Milliseconds of a step, the fastest of ``steps``, and the megabytes that the process had at most."""
    config = resolve(recipe, batch=BATCH[recipe], device="cpu")
    source = synthetic_images(torch.device("cpu"))
    step = TrainStep(config, source, assembly.create(config, source.device))
    times = []
    with keep_freed_memory() if way == "kept" else contextlib.nullcontext():
        for _ in range(steps + 1):
            begun = time.perf_counter()
            step.run()
            times.append(time.perf_counter() - begun)
    return {"ms": 1000 * min(times[1:]), "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}


def summary(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Best time and peak of both ways; times faster is the median over rounds."""
    best = {way: min(each["ms"] for each in times) for way, times in found.items()}
    ratios = [back["ms"] / kept["ms"] for kept, back in zip(found["kept"], found["given back"], strict=True)]
    return {
        **{f"{way}, ms": round(value, 1) for way, value in best.items()},
        **{f"{way}, peak MB": round(max(each["peak_mb"] for each in times)) for way, times in found.items()},
        "times_faster": round(float(np.median(ratios)), 2),
    }


if __name__ == "__main__":
    main()
