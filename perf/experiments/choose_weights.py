"""Choose weights and patch scale on validation data; test data are not used.

    python -m perf.experiments.choose_weights --models runs/one/best.safetensors runs/two/best.safetensors \
        --tracks data/notredame data/radcliffe data/castle data/bodleian --images data/bodleian \
        --out results/experiments/choice.json

Scenes with depth (``tracks``): held-out points in two of their images, judged as training judges them; the part of them to
which no other point is nearer than their own (accuracy). Flat scenes (``images``, of a scene that no model learned from):
images and their warped, relit copies, keypoints detected in each (average precision of nearest neighbors). Both count
equally.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from patchprint.benchmarks.bundled import matching
from patchprint.common import files, provenance
from patchprint.common.devices import choose_device
from patchprint.common.types import Keypoints
from patchprint.data import TrackStore
from patchprint.data.builders.homographies import warped_pairs
from patchprint.detectors import detect
from patchprint.features import load
from patchprint.matching.calibration import some_images
from patchprint.networks import PatchNetwork, weights
from patchprint.training.held_out import HeldOutPoints

STRENGTH = 1.5  # of warps and light: about what the harder half of published planar scenes shows
WARPED = 3  # copies of an image
KEYPOINTS = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--tracks", nargs="+", required=True, help="stores whose held-out points are matched")
    parser.add_argument("--images", required=True, help="store whose images are warped")
    parser.add_argument("--scales", type=float, nargs="+", default=[16, 20, 24, 28])
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--num-images", type=int, default=8)
    parser.add_argument("--engine", default="float32", help="what computes the descriptors of flat scenes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    device = choose_device()
    scenes = {
        Path(folder).name: HeldOutPoints(TrackStore.open(folder, device).split("val"), arguments.points, arguments.seed)
        for folder in arguments.tracks
    }
    images = some_images(arguments.images, arguments.num_images)
    pairs = list(warped_pairs(images, WARPED, arguments.seed, find, STRENGTH))
    scores: dict[str, dict[str, Any]] = {}
    models: dict[str, str] = {}
    for model in arguments.models:
        network = weights.load_network(model, device)
        matched = load(model, device, engine=arguments.engine)
        models[model] = network.info.sha256
        scores[model] = {}
        for scale in arguments.scales:
            depth = {name: accuracy(network, points, scale) for name, points in scenes.items()}
            flat = fmean(matching(matched.with_patch_scale(scale), pair)["ap"] for pair in pairs)
            mean = (fmean(depth.values()) + flat) / 2
            scores[model][f"{scale:g}"] = {"depth": depth, "flat": flat, "mean": mean}
            print(
                f"{model} {scale:g} sigma: depth {fmean(depth.values()):.4f} flat {flat:.4f} mean {mean:.4f}",
                flush=True,
            )
    result = provenance.record(
        "choice",
        settings={key: value for key, value in vars(arguments).items() if key not in ("out", "models", "seed")},
        model={"name": "several", "sha256": "", "all": models},
        data={"path": arguments.tracks},
        seed=arguments.seed,
        scores=scores,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def accuracy(network: PatchNetwork, points: HeldOutPoints, scale: float) -> float:
    """The part of the points that are found again between two of their views."""
    points.source.patch_scale = scale
    return 1.0 - points.measure(network)["confusion"]


def find(image: np.ndarray) -> Keypoints:
    return detect(image, "dog-published", max_keypoints=KEYPOINTS, spread=False)


if __name__ == "__main__":
    main()
