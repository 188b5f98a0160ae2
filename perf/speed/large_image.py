"""Measure memory on an image of 50 megapixels: describing 100,000 keypoints, and detection in tiles.

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

from patchprint import networks
from patchprint.common import provenance
from patchprint.common.files import write_json
from patchprint.common.types import Keypoints
from patchprint.detectors import detect
from patchprint.features import extract, load

WIDTH, HEIGHT = 8192, 6144


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


def describe(count: int, width: int, height: int, network: str) -> dict[str, Any]:
    """Describe given keypoints with an untrained network; weights do not change memory or time."""
    rng = np.random.default_rng(1)
    xy = torch.from_numpy(rng.uniform(0, [width, height], (count, 2)))
    scale, angle = torch.from_numpy(rng.uniform(1.5, 12, count)), torch.from_numpy(rng.uniform(-3, 3, count))
    model = load(networks.create(network).eval())
    features = extract(image(width, height), model, keypoints=Keypoints(xy, scale, angle))
    return {"keypoints": len(features), "descriptors": list(features.descriptors.shape)}


def find(count: int, width: int, height: int, detector: str) -> dict[str, Any]:
    found = detect(image(width, height), detector, max_keypoints=count)
    return {"keypoints": len(found)}


def _run_part(arguments: argparse.Namespace) -> None:
    started = time.monotonic()
    if arguments.part == "describe":
        numbers = describe(arguments.count, arguments.width, arguments.height, arguments.network)
    else:
        numbers = find(arguments.count, arguments.width, arguments.height, arguments.detector)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**numbers, "seconds": round(time.monotonic() - started, 1), "peak_mib": round(peak, 1)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", choices=["describe", "detect"], help="run one part in this process and print it")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--height", type=int, default=HEIGHT)
    parser.add_argument("--network", default="hynet")
    parser.add_argument("--detector", default="dog")
    arguments = parser.parse_args()
    if arguments.part:
        _run_part(arguments)
        return
    if arguments.out is None:
        parser.error("--out is needed")
    scores = {}
    for part in ("describe", "detect"):
        command = [
            sys.executable,
            "-m",
            "perf.speed.large_image",
            "--part",
            part,
            "--network",
            arguments.network,
            "--detector",
            arguments.detector,
        ]
        for name in ("count", "width", "height"):
            command += [f"--{name}", str(getattr(arguments, name))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        scores[part] = json.loads(done.stdout.splitlines()[-1])
        print(part, scores[part], flush=True)
    result = provenance.record(
        "large picture",
        settings={"width": arguments.width, "height": arguments.height, "detector": arguments.detector},
        model={"name": f"{arguments.network}, untrained"},
        data={"path": "generated"},
        seed=0,
        scores=scores,
    )
    write_json(arguments.out, result.to_json())


if __name__ == "__main__":
    main()
