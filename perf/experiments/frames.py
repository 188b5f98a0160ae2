"""Whether learned frames match better than the detector's own, on a scene that nothing is learned from or tested on.

    python -m perf.experiments.frames --weights runs/frames.safetensors --images data/bodleian \
        --photos ../shared/data/photos/oxford-landmarks/bodleian --peers ../shared/data/peers \
        --out results/experiments/frames.json

``warped``: photos and their warped, re-lit copies, made as `perf.experiments.choose_weights` makes flat scenes. For every way
to frame the strongest places of a photo: average precision of nearest neighbors, right ones, and the part of the pairs of one
place (and about one scale) whose angles agree. ``real``: pairs of photos of the COLMAP model, chosen and judged as in
`perf.experiments.keypoint_choice`; right ones among mutual nearest neighbors. ``detector`` has the second angles that the
detector gives to some places, and so fewer places; all others have one frame for each place.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from patchprint import files, provenance
from patchprint.benchmarks.bundled import MAX_ERROR, matching
from patchprint.benchmarks.pipelines import score_pair
from patchprint.detectors import detect, with_learned_frames
from patchprint.detectors._frames import read_network
from patchprint.extras import require
from patchprint.features import Model, describe, load, match
from patchprint.features.calibration import some_images
from patchprint.geometry import jacobian, project
from patchprint.interop.kornia import from_lafs, to_lafs
from patchprint.patches.sources.homographies import ImagePair, View, render_views
from patchprint.progress import progress
from patchprint.types import Features, Keypoints
from perf.experiments.choose_weights import KEYPOINTS, STRENGTH, WARPED
from perf.experiments.keypoint_choice import PIXELS, Describe, real_pairs

OCTAVES = 0.5  # by which the scales of two keypoints of one place may differ
DEGREES = (10, 20, 45)
REAL = 7  # photos, all pairs of which are matched

# An image and all keypoints that the detector finds in it, to the keypoints that are described.
Way = Callable[[np.ndarray, Keypoints], Keypoints]
Scores = dict[str, dict[str, float]]  # of each way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--weights", type=Path, required=True, help="learned frames, as perf.release.train_frames writes them"
    )
    parser.add_argument("--images", required=True, help="store whose photos are warped")
    parser.add_argument(
        "--photos", type=Path, required=True, help="photos with a COLMAP model, of which pairs are matched"
    )
    parser.add_argument("--peers", type=Path, help="folder with AffNet.pth and OriNet.pth, to be judged as well")
    parser.add_argument("--models", nargs="+", default=["sdgmnet.fast", "sdgmnet"])
    parser.add_argument("--num-images", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    models = {name: load(name) for name in arguments.models}
    ways = {
        "detector": lambda _, found: found[:KEYPOINTS],
        **learned_ways(arguments.weights),
        **(peers(arguments.peers) if arguments.peers else {}),
    }
    images = some_images(arguments.images, arguments.num_images)
    scores = {"warped": warped(images, ways, models, arguments.seed), "real": real(arguments.photos, ways, models)}
    for kind, entries in scores.items():
        for name, entry in entries.items():
            print(kind, name, {key: round(value, 4) for key, value in entry.items()}, flush=True)
    result = provenance.record(
        "frames",
        settings={"keypoints": KEYPOINTS, "strength": STRENGTH, "warped": WARPED, "images": arguments.num_images},
        model={"name": "several", "sha256": "", "all": {name: model.info.sha256 for name, model in models.items()}},
        data={
            "path": [arguments.images, str(arguments.photos)],
            "weights": provenance.sha256_of_file(arguments.weights),
        },
        seed=arguments.seed,
        scores=scores,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def warped(images: list[np.ndarray], ways: dict[str, Way], models: dict[str, Model], seed: int) -> Scores:
    """Means over photos and copies of them."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for number, image in enumerate(progress(images, "warped photos", "photo")):
        views = render_views(image, WARPED, seed + number, STRENGTH)
        every = [find(view.image) for view in views]
        for name, way in ways.items():
            first, *others = (way(view.image, keypoints) for view, keypoints in zip(views, every, strict=True))
            for view, other in zip(views[1:], others, strict=True):
                found[name].append(_judge(views[0], view, first, other, models))
    return {name: {**_means(pairs), "pairs": len(pairs)} for name, pairs in found.items()}


def real(folder: Path, ways: dict[str, Way], models: dict[str, Model]) -> Scores:
    """Means over pairs of photos of a COLMAP model."""
    scores: Scores = {name: {} for name in ways}
    for (name, way), (described_by, model) in itertools.product(ways.items(), models.items()):
        pairs = real_pairs(folder, REAL, _describer(way, model))
        found = [score_pair(a, b, match(a, b, "mutual"), truth, PIXELS) for a, b, truth in pairs]
        means = _means([{key: pair[key] for key in ("right", "precision")} for pair in found])
        scores[name] |= {f"{described_by}, {key}": value for key, value in means.items()} | {"pairs": len(found)}
    return scores


def _describer(way: Way, model: Model) -> Describe:
    known: dict[str, Features] = {}

    def describe_once(name: str, image: np.ndarray) -> Features:
        if name not in known:
            known[name] = describe(image, way(image, find(image)), model)
        return known[name]

    return describe_once


def find(image: np.ndarray) -> Keypoints:
    return detect(image, "dog-published", None, spread=False)


def learned_ways(weights: Path) -> dict[str, Way]:
    """One angle for each place by the detector, and what the network makes of it."""
    network = read_network(weights)

    def learned(image: np.ndarray, keypoints: Keypoints, turned: bool = True, stretched: bool = True) -> Keypoints:
        return with_learned_frames(image, keypoints, turned, stretched, network)

    return {
        "detector, one angle": lambda _, found: _places(found),
        "learned": lambda image, found: learned(image, _places(found)),
        "learned, twice": lambda image, found: learned(image, learned(image, _places(found))),
        "learned turn, then both": lambda image, found: learned(image, learned(image, _places(found), stretched=False)),
        "learned, from upright": lambda image, found: learned(image, _places(found).upright()),
        "learned turn": lambda image, found: learned(image, _places(found), stretched=False),
        "learned stretch": lambda image, found: learned(image, _places(found), turned=False),
    }


def peers(folder: Path) -> dict[str, Way]:
    """Published networks: AffNet's shapes with the detector's angles, OriNet's angles, and both."""
    features: Any = require("kornia.feature", extra="eval")
    shape, turn = features.LAFAffNetShapeEstimator(False), features.OriNet(False)
    for module, name in ((shape, "AffNet"), (turn, "OriNet")):
        state = torch.load(folder / f"{name}.pth", map_location="cpu", weights_only=True)["state_dict"]
        module.load_state_dict(state)
        module.eval()
    orienter = features.LAFOrienter(32, angle_detector=turn)

    @torch.no_grad()
    def frame(image: np.ndarray, found: Keypoints, affine: bool, oriented: bool) -> Keypoints:
        pixels, keypoints = torch.from_numpy(image)[None, None].float() / 255, _places(found)
        lafs = to_lafs(keypoints)
        lafs = shape(lafs, pixels) if affine else lafs
        lafs = orienter(lafs, pixels) if oriented else lafs
        return from_lafs(lafs, keypoints.score)

    return {
        "AffNet": lambda image, found: frame(image, found, affine=True, oriented=False),
        "OriNet": lambda image, found: frame(image, found, affine=False, oriented=True),
        "AffNet, OriNet": lambda image, found: frame(image, found, affine=True, oriented=True),
    }


def _places(found: Keypoints) -> Keypoints:
    return found.unique_places()[:KEYPOINTS]


def _means(entries: list[dict[str, float]]) -> dict[str, float]:
    return {key: fmean(entry[key] for entry in entries) for key in entries[0]}


def _judge(first: View, second: View, a: Keypoints, b: Keypoints, models: dict[str, Model]) -> dict[str, float]:
    truth = torch.from_numpy(project(second.homography, a.xy.double().numpy())).float()
    pair = ImagePair((first.image, second.image), (a, b), truth)
    scores: dict[str, float] = {}
    for name, model in models.items():
        matched = matching(model, pair)
        scores |= {f"{name}, AP": matched["ap"], f"{name}, right": matched["correct"], "possible": matched["possible"]}
    apart = degrees_apart(a, b, second.homography)
    return scores | {f"angles within {limit}": float((apart <= limit).mean()) for limit in DEGREES}


def degrees_apart(a: Keypoints, b: Keypoints, homography: np.ndarray) -> np.ndarray:
    """By how much frames of one place differ in angle, (M,): of each keypoint of a that has others of its scale within reach in
    b, the one that differs least."""
    here = a.xy.double().numpy()
    moved = jacobian(homography, here) @ a.frames().double().numpy()
    scale = np.sqrt(np.abs(np.linalg.det(moved)))
    distance = np.linalg.norm(project(homography, here)[:, None] - b.xy.double().numpy(), axis=-1)
    octaves = np.abs(np.log2(b.scale.double().numpy())[None] - np.log2(scale)[:, None])
    rows, columns = np.nonzero((distance <= MAX_ERROR) & (octaves <= OCTAVES))
    between = np.linalg.inv(b.frames().double().numpy()[columns]) @ moved[rows]
    turn = np.arctan2(between[:, 1, 0] - between[:, 0, 1], between[:, 0, 0] + between[:, 1, 1])
    least = np.full(len(a), np.inf)
    np.minimum.at(least, rows, np.degrees(np.abs(turn)))
    return least[np.isfinite(least)]


if __name__ == "__main__":
    main()
