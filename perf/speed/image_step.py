"""Time one training step of whole images: plain eager, and as a CUDA graph with norms folded into convolutions.

python -m perf.speed.image_step --out results/speed/image-step.json

Speed does not depend on what the images show: they are noise, with the shapes of CUB-200-2011 at 128 pixels.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from patchprint.common import files, provenance
from patchprint.data.image_store import ImageStore
from patchprint.training import assembly, resolve
from patchprint.training.config import Acceleration
from patchprint.training.step import TrainStep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/speed/image-step.json"))
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument(
        "--steps", type=int, default=50, help="steps in one timing, of which the fastest of three counts"
    )
    arguments = parser.parse_args()
    started = time.monotonic()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as folder:
        source = noise(Path(folder) / "store").to(device)
        modes: tuple[Acceleration, ...] = ("record", "eager")
        scores = {mode: measure(source, mode, arguments.size, arguments.steps) for mode in modes}
    print(scores)
    result = provenance.record(
        "image-step",
        settings={"recipe": "metric-lite0", "loss": "semihard", "sec": 0.5, "images": 120, "size": arguments.size},
        scores={
            **{f"{mode}_ms": round(value, 3) for mode, value in scores.items()},
            "speedup": round(scores["eager"] / scores["record"], 2),
        },
        data={"path": "noise, 128 x 160 pixels"},
        seed=0,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def noise(folder: Path, classes: int = 60, count: int = 20) -> ImageStore:
    random = np.random.default_rng(0)
    images = (random.integers(0, 256, (128, 160, 3), dtype=np.uint8) for _ in range(classes * count))
    names = [str(number) for number in range(classes)]
    point = np.repeat(np.arange(classes), count)
    ImageStore.write(
        folder, images, point, np.zeros(classes, np.uint8), np.arange(classes), names, list(map(str, point))
    )
    return ImageStore.open(folder)


def measure(source: ImageStore, mode: Acceleration, size: int, steps: int) -> float:
    """Milliseconds of one step, from choosing the images to new weights."""
    config = resolve("metric-lite0", sec=0.5, acceleration=mode, network_options={"input_size": size})
    step = TrainStep(config, source, assembly.create(config, source.device))
    for _ in range(8):
        step.run()
    times = []
    for _ in range(3):
        _wait(source.device)
        begun = time.perf_counter()
        for _ in range(steps):
            step.run()
        _wait(source.device)
        times.append((time.perf_counter() - begun) / steps * 1000)
    return min(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
