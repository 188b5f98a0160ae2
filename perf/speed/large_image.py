"""Measure time and memory on images of 25 to 100 megapixels: describing 100,000 keypoints, and detection in tiles.

    python -m perf.speed.large_image --out results/speed/large-image.json

Each part runs in a process of its own, whose largest resident size is what counts (it includes Python and torch).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import provenance
from patchprint.common.files import write_json
from patchprint.common.types import Keypoints
from patchprint.detectors import detect
from patchprint.features import extract, load
from patchprint.features.model import DEFAULT_MODEL

SIZES = ("6144x4096", "8192x6144", "12288x8192")  # 25, 50 and 100 megapixels


def image(width: int, height: int, seed: int = 0) -> np.ndarray:
    """Blocks of noise at several scales, uint8 (H, W), made without large temporary arrays."""
    rng = np.random.default_rng(seed)
    image = np.zeros((height, width), np.uint8)
    for side in (8, 16, 64):
        coarse = rng.integers(0, 85, (height // side + 1, width // side + 1), dtype=np.uint8)
        for row in range(0, height, side):
            line = np.repeat(coarse[row // side], side)[:width]
            image[row : row + side] += line
    return image


def describe(count: int, width: int, height: int, name: str) -> dict[str, Any]:
    """Describe keypoints at random places, scales and angles."""
    rng = np.random.default_rng(1)
    xy = torch.from_numpy(rng.uniform(0, [width, height], (count, 2)))
    scale, angle = torch.from_numpy(rng.uniform(1.5, 12, count)), torch.from_numpy(rng.uniform(-3, 3, count))
    model = load(name)
    features = extract(image(width, height), model, keypoints=Keypoints(xy, scale, angle))
    return {"keypoints": len(features), "descriptors": list(features.descriptors.shape)}


def find(count: int, width: int, height: int, detector: str) -> dict[str, Any]:
    found = detect(image(width, height), detector, max_keypoints=count)
    return {"keypoints": len(found)}


def _run_part(arguments: argparse.Namespace) -> None:
    started = time.monotonic()
    width, height = (int(side) for side in arguments.sizes[0].split("x"))
    if arguments.part == "describe":
        numbers = describe(arguments.count, width, height, arguments.model)
    else:
        numbers = find(arguments.count, width, height, arguments.detector)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**numbers, "seconds": round(time.monotonic() - started, 1), "peak_mib": round(peak, 1)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", choices=["describe", "detect"], help="run one part in this process and print it")
    parser.add_argument("--count", type=int, default=100_000, help="keypoints, or the most that are found")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), metavar="WIDTHxHEIGHT")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--detector", default="dog")
    arguments = parser.parse_args()
    if arguments.part:
        _run_part(arguments)
        return
    if arguments.out is None:
        parser.error("--out is needed")
    started, scores = time.monotonic(), {}
    for size in arguments.sizes:
        for part in ("describe", "detect"):
            command = [sys.executable, "-m", "perf.speed.large_image", "--part", part, "--sizes", size]
            for name in ("model", "detector", "count"):
                command += [f"--{name}", str(getattr(arguments, name))]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            scores[f"{part}, {size}"] = json.loads(done.stdout.splitlines()[-1])
            print(part, size, scores[f"{part}, {size}"], flush=True)
    result = provenance.record(
        "large image",
        settings={"detector": arguments.detector, "threads": torch.get_num_threads()},
        model={"name": arguments.model},
        data={"path": "generated"},
        seed=0,
        scores=scores,
        started=started,
    )
    write_json(arguments.out, result.to_json())


if __name__ == "__main__":
    main()
