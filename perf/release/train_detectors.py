r"""Train detectors side by side on a GPU machine that is lent for minutes, each for the same time.

    patchprint data build planes SCENE data/keypoints/NAME --max-size 640 --quality 75    # of each scene
    python -m perf.release.train_detectors --carried data/keypoints --seconds 400 --out "$OUT"      # there
    python -m perf.experiments.keypoint_choice --found dog learned detectors/*/last.safetensors ... # here, on other scenes

Each run measures in its first steps how fast it is beside the others, and takes as many steps as fit into the time.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from patchprint.pipelines.detector_training import DetectorSettings, DetectorTask, train_detector

PROBE_STEPS, LEFT = 30, 0.93  # steps that are timed, after as many that are not; share of the time that is planned for
SAVING = 12.0  # seconds
RUNS: dict[str, dict[str, Any]] = {
    "main": {},
    "another-seed": {"seed": 1},
    "found-again-alone": {"model": "none"},
    "copies-alone": {"real": 0.0},
    "planes-alone": {"real": 1.0},
    "larger-crops": {"side": 256, "batch": 20},
    "higher-rate": {"lr": 1.2e-2},
    "wide-circles": {"widths": (24, 16, 48, 32), "radii": (1.5, 2.5, 3.5, 5.0, 6.5, 8.5)},
    "wide": {"widths": (48, 24, 64, 48), "radii": (1.5, 2.5, 3.5, 5.0, 6.5, 8.5)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--carried", type=Path, required=True, help="folder of folders of images, with planes or without"
    )
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--batch", type=int, default=32)
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
        with open(arguments.out / f"{name}.log", "w") as log:
            running[name] = subprocess.Popen([*same, "--run", name], stdout=log, stderr=subprocess.STDOUT)
    for name, process in running.items():
        last = (process.wait(), (arguments.out / f"{name}.log").read_text().strip().splitlines()[-1:])
        print(name, *last, flush=True)
    with tarfile.open(arguments.out / "detectors.tar.gz", "w:gz") as archive:
        archive.add(arguments.out / "detectors", "detectors")


def train(given: argparse.Namespace) -> None:
    """Train one run of `RUNS`."""
    start = time.monotonic()
    folders = sorted(path for path in given.carried.iterdir() if path.is_dir())
    values: dict[str, Any] = {"batch": given.batch, "lr": 6e-3, "device": given.device, **RUNS[given.run]}
    settings = DetectorSettings(**values)
    task = DetectorTask(settings.config(folders))
    step = task.create_step(task.create_state())
    begun = start
    for number in range(2 * PROBE_STEPS):
        if number == PROBE_STEPS:
            print({name: float(value) for name, value in step.losses.items()}, flush=True)  # waits for the device
            begun = time.monotonic()
        step.run()
    each = (float(step.losses["total"] * 0) + time.monotonic() - begun) / PROBE_STEPS
    steps = max(PROBE_STEPS, int(LEFT * (start + given.seconds - SAVING - time.monotonic()) / each))
    print(f"{each:.3f} s a step, {steps} steps", flush=True)
    settings = dataclasses.replace(settings, steps=steps, validate_every=max(1, steps // 8))
    print(train_detector(folders, out=given.out / "detectors" / given.run, settings=settings, force=True))


if __name__ == "__main__":
    main()
