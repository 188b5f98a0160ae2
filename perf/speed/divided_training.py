"""Measure training by several processes that share the images: memory of each, and losses beside those of one process.

    python -m perf.speed.divided_training --data STORE ... --out results/scale/divided-training.json

The same run is done by one, two and four processes that divide the images, and by four that do not (gloo, CPU, one thread
each). Memory is the largest resident size of a process in a run (it includes Python and torch), beside that of a process which
has only imported. Losses are in float64 and at a hundredth of the rate of the recipe: at a tenth hard mining makes roundings
grow to 1e-2 within 50 steps.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from patchprint.common import distributed as ranks, files, provenance
from patchprint.data.image_bank import DividedImages
from patchprint.data.tracks import TrackStore
from patchprint.training import resolve, train
from patchprint.training.run_folder import read_metrics

RUNS = ((1, True), (2, True), (4, True), (4, False))
RECIPE = "sdgmnet"


def peak_mib() -> float:
    """Of this process since it began; unlike ``ru_maxrss`` it leaves out the process that this one was started by."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024, 1)


def one_process(arguments: argparse.Namespace) -> None:
    """What torchrun starts: train, and leave behind how much memory that took."""
    imported = peak_mib()
    torch.set_num_threads(1)
    ranks.start("cpu")
    store = TrackStore.open(arguments.data, divided=not arguments.undivided)
    settings = {
        "steps": arguments.steps,
        "batch": arguments.batch,
        "lr": arguments.rate * resolve(RECIPE).lr,
        "network_options": {"width": arguments.width, "dropout": 0.0},
        "precision": "float64",
        "device": "cpu",
        "log_every": 1,
        "validate_every": arguments.steps,
        "checkpoint_every": arguments.steps,
        "validation_pairs": 200,
        "tensorboard": False,
        "divide_photos": not arguments.undivided,
    }
    outcome = train(resolve(RECIPE, **settings), store, out=arguments.work / "run")
    bank: Any = store.images.held if isinstance(store.images, DividedImages) else store.images
    found = {
        "imported_mib": imported,
        "peak_mib": peak_mib(),
        "photos_mib": round(bank.pyramids.pixels.nbytes / 2**20, 1),
        "seconds": outcome.seconds,
    }
    files.write_json(arguments.work / f"process-{ranks.rank()}.json", found)
    ranks.stop()


def several_processes(count: int, divided: bool, arguments: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Memory and seconds of each process of a run, and its losses."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    command += ["-m", "perf.speed.divided_training", "--work", str(work), "--data", *arguments.data]
    command += ["--undivided"] * (not divided)
    command += [f"--{name}={getattr(arguments, name)}" for name in ("steps", "batch", "width", "rate")]
    work.mkdir()
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    lines = read_metrics(work / "run" / "metrics.jsonl")
    return {
        "processes": count,
        "divided": divided,
        "each": [json.loads((work / f"process-{rank}.json").read_text()) for rank in range(count)],
        "losses": [line["loss/total"] for line in lines if "loss/total" in line],
        "validation": {name: value for line in lines for name, value in line.items() if name.startswith("validation/")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True, help="stores of images with tracks")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--rate", type=float, default=0.01, help="part of the learning rate of the recipe")
    parser.add_argument("--out", type=Path, default=Path("results/scale/divided-training.json"))
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--undivided", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        one_process(arguments)
        return
    started = time.monotonic()
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        for count, divided in RUNS:
            run = several_processes(count, divided, arguments, Path(work) / f"{count}-{divided}")
            first = runs[0]["losses"] if runs else run["losses"]
            run["largest_difference"] = max(abs(a - b) for a, b in zip(run["losses"], first, strict=True))
            runs.append(run)
            print(count, divided, run["each"], run["largest_difference"], flush=True)
    result = provenance.record(
        "divided-training",
        settings={name: getattr(arguments, name) for name in ("steps", "batch", "width", "rate")}
        | {"precision": "float64"},
        model={"name": RECIPE, "sha256": ""},
        data={
            Path(folder).name: json.loads((Path(folder) / "manifest.json").read_text())["photos"]
            for folder in arguments.data
        },
        seed=0,
        scores={"runs": runs},
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


if __name__ == "__main__":
    main()
