"""Load that a machine must carry without growing: many photos in one run, and a long training.

``make load`` does both for the night and writes ``results/reliability/load.json``.
"""

import argparse
import dataclasses
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from patchprint.common import files, provenance
from patchprint.common.signals import STOPPED
from patchprint.features.extract import DescribeSettings
from patchprint.storage.feature_folder import describe_folder
from patchprint.training import checkpoint, resolve
from patchprint.training.loop import train
from support import training_data
from support.checkout import ROOT
from support.known_images import texture
from support.watching import Watch

MOST_GROWTH = 25.0  # MiB from the second fifth of the time to the last


def describe_many(photos: int, folder: Path, model: str = "patchprint.tiny") -> dict[str, Any]:
    """Describe so many small photos in one run, each with other pixels."""
    wall = texture(400, 500)
    for number in range(photos):
        place = folder / "photos" / f"{number // 1000:03d}"
        place.mkdir(parents=True, exist_ok=True)
        x, y = number % 400, number // 400 % 320
        cv2.imwrite(str(place / f"{number:06d}.png"), np.roll(wall, (y, x), (0, 1))[:80, :100])
    started = time.monotonic()
    # The engine is named, so that the file says the same on every machine.
    settings = DescribeSettings(model=model, max_keypoints=20, engine="float32")
    with Watch() as watch:
        found = describe_folder(folder / "photos", folder / "features", settings)
    written = len(list((folder / "features").rglob("*.npz")))
    return {"photos": photos, "described": len(found), "files_written": written, **_held(watch, started)}


def train_for(seconds: float, folder: Path) -> dict[str, Any]:
    """Train until somebody asks the run to stop, with checkpoints and validations on the way."""
    settings = {**training_data.SHORT, "steps": 10**8, "log_every": 20, "validate_every": 50, "checkpoint_every": 50}
    config = resolve("hardnet", **settings, network_options=training_data.narrow("hardnet"))
    # The first training of a process imports a lot, which is no growth.
    train(dataclasses.replace(config, steps=2), training_data.images(), out=folder / "first run")
    asking = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGTERM))
    asking.start()
    started, code = time.monotonic(), None
    with Watch() as watch:
        try:
            train(config, training_data.images(), out=folder / "run")
        except SystemExit as stop:
            code = stop.code
    newest = checkpoint.latest(folder / "run" / "checkpoints")
    steps = int(newest.stem.removeprefix("step-"))
    return {"minutes": round(seconds / 60, 2), "steps": steps, "stopped_well": code == STOPPED, **_held(watch, started)}


def _held(watch: Watch, started: float) -> dict[str, Any]:
    return {
        "seconds": round(time.monotonic() - started, 1),
        "peak_mib": watch.peak_mib,
        "growth_mib": watch.growth_mib,
        "leaked_handles": max(0, watch.files_after - watch.files_before),
    }


def problems(described: dict[str, Any], trained: dict[str, Any]) -> list[str]:
    """What was not held."""
    found = [
        f"{name}: {what}"
        for name, held in (("describe", described), ("train", trained))
        for what, wrong in (
            (f"memory grew by {held['growth_mib']} MiB", held["growth_mib"] > MOST_GROWTH),
            (f"{held['leaked_handles']} files were left open", held["leaked_handles"] > 0),
        )
        if wrong
    ]
    if not described["photos"] == described["described"] == described["files_written"]:
        found.append(f"describe: {described['described']} of {described['photos']} photos")
    if not trained["stopped_well"]:
        found.append("train: it did not stop as asked")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=30.0, help="of training")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "reliability" / "load.json")
    chosen = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="patchprint-load-") as place:
        described = describe_many(chosen.images, Path(place))
        print(described, flush=True)
        trained = train_for(60 * chosen.minutes, Path(place))
        print(trained, flush=True)
    found = problems(described, trained)
    nightly = chosen.images >= 10_000 and chosen.minutes >= 30
    settings = {
        "photos": chosen.images,
        "training_minutes": chosen.minutes,
        "most_growth_mib": MOST_GROWTH,
        "size": "nightly" if nightly else "smaller than nightly (10,000 images, 30 minutes)",
    }
    scores = {"describe": described, "train": trained, "problems": found}
    command = f"make load COUNT={chosen.images} MINUTES={chosen.minutes:g}"
    files.write_json(
        chosen.out,
        provenance.record("load", settings=settings, scores=scores, started=started, command=command).to_json(),
    )
    print("\n".join(found) or f"all held; {chosen.out}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
