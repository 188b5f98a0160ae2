"""Compare choices of 2000 keypoints and matching rules, on images that are no benchmark.

    python -m perf.experiments.keypoint_choice --images ../shared/data/photos --cache runs/keypoint-choice \
        --out results/experiments/keypoint-choice.json

Two scenes that the learned detector did not see. ``warped``: an image and a copy under a random homography and other light,
judged as `eval pipelines` judges a plane; ``relit``: the same in very different light. ``real``: images of a COLMAP model that
share points, all pairs of them, judged by epipolar lines and by pose. For each way to find keypoints: how many places there
are, how many of them are found again (``repeated``, not of real pairs), and what each way to match leaves of them. Features are
kept in the cache.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from scipy.spatial import cKDTree
from tqdm import tqdm

from patchprint.benchmarks.pipelines import KnownCameras, KnownHomography, Truth, score_pair
from patchprint.common import files, provenance, rng
from patchprint.common.types import Features
from patchprint.data.augment import change_light
from patchprint.data.builders.homographies import render_views
from patchprint.features import Model, extract, load
from patchprint.interop.colmap_models import PIXEL_CENTER, poses_of_model, read_model
from patchprint.interop.images import limit_size, list_images, read_gray
from patchprint.matching import match
from patchprint.metrics.geometry import error_auc
from patchprint.ops.geometry import project, relative_pose
from patchprint.storage import feature_files

HELD_OUT = ("castle", "oxford-landmarks/bodleian")
KEYPOINTS, SIDE, PIXELS = 2000, 720, 3.0
SHARED, LARGEST_SHARE = 30, 0.6  # points that two images share, and of the points of either at most this part
SEED = 0
FOUND = {  # detector, spread
    "dog": ("dog", True),
    "dog, strongest": ("dog", False),
    "learned": ("learned", True),
    "learned, strongest": ("learned", False),
    "hessian, strongest": ("hessian", False),
}
MATCHED: dict[str, tuple[str, float | None]] = {  # mode, ratio; None: that of the model
    "mutual": ("mutual", None),
    "mutual+ratio": ("mutual+ratio", None),
    "mutual+ratio 0.86": ("mutual+ratio", 0.86),
    "fginn": ("fginn", None),
    "fginn 0.82": ("fginn", 0.82),
    "fginn 0.86": ("fginn", 0.86),
}

Describe = Callable[[str, np.ndarray], Features]
Pair = tuple[Features, Features, Truth]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--model", default="patchprint")
    names = ", ".join(FOUND)
    parser.add_argument("--found", nargs="+", default=list(FOUND), help=f"ways to find keypoints: {names}; or weights")
    parser.add_argument("--warped", type=int, default=3, help="photos of a scene")
    parser.add_argument("--real", type=int, default=7, help="photos of a scene, which are paired")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    model = load(arguments.model)
    kinds: dict[str, tuple[Callable[..., Iterator[Pair]], int]] = {
        "warped": (warped_pairs, arguments.warped),
        "relit": (partial(warped_pairs, relit=True), arguments.warped),
        "real": (real_pairs, arguments.real),
    }
    table: dict[str, dict[str, Any]] = {name: {} for name in arguments.found}
    for name, (kind, (make, count)) in itertools.product(table, kinds.items()):
        detector, spread = FOUND.get(name, (name, False))
        describe = _describer(model, detector, spread, arguments.cache)
        pairs = [pair for scene in HELD_OUT for pair in make(arguments.images / scene, count, describe)]
        table[name][kind] = judge(pairs)
        print(name, kind, table[name][kind], flush=True)
    result = provenance.record(
        "keypoint-choice",
        settings={"keypoints": KEYPOINTS, "side": SIDE, "px": PIXELS, "ratio": model.ratio},
        model={"name": model.info.name, "sha256": model.info.sha256},
        data={"path": str(arguments.images), "scenes": list(HELD_OUT)},
        seed=SEED,
        scores=table,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


def judge(pairs: list[Pair]) -> dict[str, Any]:
    """Means over pairs: keypoints, places, repeated places; by way to match right matches, precision and AUC."""
    counts = [count_places(*pair) for pair in tqdm(pairs, desc="places", disable=None)]
    scores: dict[str, Any] = {name: round(float(np.mean([each[name] for each in counts])), 1) for name in counts[0]}
    for name, (mode, ratio) in MATCHED.items():
        found = [score_pair(a, b, match(a, b, mode, ratio=ratio), truth, PIXELS) for a, b, truth in pairs]
        truth = pairs[0][2]
        errors = [each["error"] for each in found]
        scores[name] = {
            "right": round(float(np.mean([each["right"] for each in found])), 1),
            "precision": round(float(np.mean([each["precision"] for each in found])), 4),
            **{f"AUC {limit:g} {truth.unit}": round(error_auc(errors, limit), 4) for limit in truth.limits},
        }
    return {**scores, "pairs": len(pairs)}


def count_places(a: Features, b: Features, truth: Truth) -> dict[str, int]:
    """Keypoints and places of the first image; of a plane also the places that lie within `PIXELS` of one of the second."""
    places = np.unique(a.keypoints.xy.double().numpy(), axis=0)
    counts = {"keypoints": len(a), "places": len(places)}
    if isinstance(truth, KnownHomography):
        expected = project(truth.homography, places)
        inside = ((expected > 0) & (expected < np.array(b.image_size) - 1)).all(1)
        distance, _ = cKDTree(b.keypoints.xy.double().numpy()).query(expected)
        counts |= {"inside": int(inside.sum()), "repeated": int((inside & (distance < PIXELS)).sum())}
    return counts


def warped_pairs(folder: Path, count: int, describe: Describe, relit: bool = False) -> Iterator[Pair]:
    names = sorted(list_images(folder / "images"))
    for number in np.random.default_rng(SEED).permutation(len(names))[:count]:
        photo = limit_size(read_gray(folder / "images" / names[number]), SIDE)
        views = render_views(photo, 1, SEED + int(number))
        homography, copy, name = views[1].homography, views[1].image, f"{folder.name}/{names[number]}"
        if relit:
            pixels = cv2.warpPerspective(photo, homography, photo.shape[::-1], borderMode=cv2.BORDER_REFLECT_101)
            values = torch.from_numpy(pixels)[None, None].float() / 255
            values = change_light(values, rng.key(SEED, int(number)), 0.8)[0, 0]
            copy, name = (255 * values).round().to(torch.uint8).numpy(), f"{name}-relit"
        yield (
            describe(f"{folder.name}/{names[number]}-view0", photo),
            describe(f"{name}-view1", copy),
            KnownHomography(homography),
        )


def real_pairs(folder: Path, count: int, describe: Describe) -> Iterator[Pair]:
    """The image that overlaps with most others, some of these, and all pairs of them that overlap."""
    model = read_model(folder)
    poses = poses_of_model(model)
    images = sorted((image for image in model.images.values() if image.name in poses), key=lambda image: image.name)
    points = {image.name: {p.point3D_id for p in image.points2D if p.has_point3D()} for image in images}

    def overlaps(one: Any, other: Any) -> bool:
        shared = len(points[one.name] & points[other.name])
        return SHARED <= shared <= LARGEST_SHARE * min(len(points[one.name]), len(points[other.name]))

    partners = [[other for other in images if other is not image and overlaps(image, other)] for image in images]
    most = max(range(len(images)), key=lambda number: len(partners[number]))
    drawn = np.random.default_rng(SEED).permutation(len(partners[most]))[: count - 1]
    chosen = [images[most], *(partners[most][number] for number in drawn)]
    for pair in itertools.combinations(chosen, 2):
        if not overlaps(*pair):
            continue
        cameras = [model.cameras[image.camera_id] for image in pair]
        photos = [read_gray(folder / "images" / image.name) for image in pair]
        shrink = [max(photo.shape) / min(SIDE, max(photo.shape)) for photo in photos]
        # Both as one camera without distortion would see them, in pixels of the smaller copies.
        focal = float(np.mean([each.mean_focal_length() / times for each, times in zip(cameras, shrink, strict=True)]))
        sides = []
        for image, camera, photo, times in zip(pair, cameras, photos, shrink, strict=True):
            found = describe(f"{folder.name}/{image.name}", limit_size(photo, SIDE))
            pixels = (found.keypoints.xy.double().numpy() + 0.5) * times - 0.5
            rays = np.asarray(camera.cam_from_img(pixels + PIXEL_CENTER))[:, :2]
            zoom = focal * times / camera.mean_focal_length()
            xy, scale = found.keypoints.xy.new_tensor(focal * rays), found.keypoints.scale * zoom
            places = dataclasses.replace(found.keypoints, xy=xy, scale=scale)
            sides.append(dataclasses.replace(found, keypoints=places))
        a, b = sides
        poses_here = [poses[image.name] for image in pair]
        yield a, b, KnownCameras(*relative_pose(*poses_here), np.diag([focal, focal, 1.0]))


def _describer(model: Model, detector: str, spread: bool, cache: Path) -> Describe:
    def describe(name: str, image: np.ndarray) -> Features:
        kept = cache / model.info.name / f"{detector.replace('/', '-')}{'' if spread else '-strongest'}" / f"{name}.npz"
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            features = extract(image, model, max_keypoints=KEYPOINTS, detector=detector, spread=spread)
            feature_files.save_features(features, kept)
        return feature_files.load_features(kept)

    return describe


if __name__ == "__main__":
    main()
