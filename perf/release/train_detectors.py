r"""Train detectors side by side on a GPU machine that is lent for minutes, each for the same time.

    patchprint data build planes SCENE data/planes/NAME --max-size 640 --quality 75       # of each scene
    python -m perf.release.train_detectors --carried data/planes --seconds 1000 --out OUT          # there
    python -m perf.experiments.keypoint_choice --found dog learned detectors/*/last.safetensors ... # here, on other scenes

How fast a step is depends on what else the machine does, so the learning rate follows the clock, not the steps. Weights (a
running average) and a checkpoint are written every minute; the same command goes on from there, for what is left of
``--seconds``.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import math
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any, cast

import torch

from patchprint.common import files
from patchprint.networks.network import PatchNetwork, TrainingRecord
from patchprint.pipelines.detector_training import DetectorSettings, DetectorTask
from patchprint.training import checkpoint
from patchprint.training.config import TrainConfig
from patchprint.training.held_out import score

AVERAGE = 0.995  # of the weights, decay for each step
SAVED = 60.0  # seconds between checkpoints
RISING, LOWEST = 0.1, 0.02  # part of the time in which the learning rate rises; what is left of it at the end
CIRCLES = (1.0, 2.0, 3.5, 5.0, 8.5)
RUNS: dict[str, dict[str, Any]] = {
    "main": {},
    "another-seed": {"seed": 1},
    "found-again-alone": {"model": "none"},
    "copies-alone": {"real": 0.0},
    "planes-alone": {"real": 1.0},
    "larger-crops": {"side": 256, "batch": 20},
    "higher-rate": {"lr": 1.2e-2},
    "found": {"model": "none", "widths": (24, 16, 32, 24), "radii": CIRCLES},
    "told-apart": {"widths": (24, 16, 24, 16), "seed": 1},
    "lean": {"model": "none", "widths": (16, 8, 48, 32), "radii": CIRCLES, "seed": 2},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--carried", type=Path, required=True, help="folder of folders of images, with planes or without"
    )
    parser.add_argument("--seconds", type=float, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--side", type=int, default=192)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--run", choices=RUNS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        train(arguments)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    same = [sys.executable, "-m", "perf.release.train_detectors", *sys.argv[1:]]
    running = {}
    for name in arguments.only:
        with open(arguments.out / f"{name}.log", "a") as log:
            running[name] = subprocess.Popen([*same, "--run", name], stdout=log, stderr=subprocess.STDOUT)
    for name, process in running.items():
        last = (process.wait(), (arguments.out / f"{name}.log").read_text().strip().splitlines()[-1:])
        print(name, *last, flush=True)
    with tarfile.open(arguments.out / "detectors.tar.gz", "w:gz") as archive:
        archive.add(arguments.out / "detectors", "detectors")


def train(given: argparse.Namespace) -> None:
    """Train one run of `RUNS`."""
    begun = time.monotonic()
    torch.set_num_threads(1)  # several processes share the cores
    folders = sorted(path for path in given.carried.iterdir() if path.is_dir())
    values: dict[str, Any] = {"batch": given.batch, "side": given.side, "lr": 6e-3, **RUNS[given.run]}
    config = DetectorSettings(**values, device=given.device).config(folders)
    config = dataclasses.replace(config, schedule="constant", average=AVERAGE)
    config = TrainConfig.from_json(json.loads(json.dumps(config.to_json())), "run")  # as a checkpoint has it
    task, out = DetectorTask(config), given.out / "detectors" / given.run
    state, clock = task.create_state(), out / "clock.json"
    if checkpoint.any_in(out / "checkpoints"):
        checkpoint.read(checkpoint.latest(out / "checkpoints"), state, config)
        begun -= json.loads(clock.read_text())["seconds"]
    out.mkdir(parents=True, exist_ok=True)
    step, judged, saved = task.create_step(state), copy.deepcopy(state.network), time.monotonic()
    first, started = state.step, time.monotonic()

    def save() -> None:
        judged.load_state_dict({**state.network.state_dict(), **(state.average or {})})
        measured = task.judge.measure(cast(PatchNetwork, judged))
        found = checkpoint.Validated(state.step, score(measured), measured)
        spent, each = time.monotonic() - begun, (time.monotonic() - started) / max(1, state.step - first)
        losses = {name: round(float(value), 4) for name, value in step.losses.items()}
        print(
            json.dumps({"step": state.step, "seconds": round(spent), "each": round(each, 4), **losses, **measured}),
            flush=True,
        )
        record = TrainingRecord(
            "detector", ", ".join(folder.name for folder in folders), state.step, "", config.to_json()
        )
        best = not state.best or found.score <= state.best[0].score
        state.best = [found] if best else state.best
        for name in ("best", "last") if best else ("last",):
            task.save(judged, out / f"{name}.safetensors", f"learned.{given.run}", record)
        checkpoint.write(out / "checkpoints", state, config)
        files.write_json(clock, {"seconds": spent})

    while (elapsed := time.monotonic() - begun) < given.seconds:
        step.config = dataclasses.replace(config, lr=config.lr * rate(elapsed / given.seconds))
        step.run()
        if time.monotonic() - saved > SAVED or state.step == first + 1:  # at once: what fails, fails early
            save()
            saved = time.monotonic()
        if state.step % 50 == 0 and int(step.first_bad) >= 0:  # looking waits for the device
            raise SystemExit(f"loss or weights are not finite at step {state.step}")
    save()


def rate(done: float) -> float:
    """Return the part of the highest learning rate when the part ``done`` of the time is over."""
    if done < RISING:
        return 0.04 + 0.96 * done / RISING
    return LOWEST + (1 - LOWEST) * (1 + math.cos(math.pi * min(1.0, (done - RISING) / (1 - RISING)))) / 2


if __name__ == "__main__":
    main()
