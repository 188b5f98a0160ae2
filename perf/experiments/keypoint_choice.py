"""Which 2000 of a photo's keypoints match best: rules for choosing among the same candidates, on photos that are no benchmark.

    python -m perf.experiments.keypoint_choice --photos ../shared/data/photos --cache runs/keypoint-choice \
        --out results/experiments/keypoint-choice.json

Three scenes that the learned score did not see. ``warped``: a photo and a copy under a random homography and other light,
judged as `eval pipelines` judges a plane. ``real``: two photos of a COLMAP model that share points, judged by epipolar lines
and by pose. Candidates are what `dog-learned` finds; rules that do not say otherwise take those that `dog` would find.
Descriptors of all candidates are made once and kept in the cache. Ten minutes on one core.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from patchprint import files, provenance
from patchprint.benchmarks._known_pairs import KnownCameras, KnownHomography, Truth
from patchprint.benchmarks.pipelines import score_pair
from patchprint.detectors import select
from patchprint.detectors._matchability import with_matchability
from patchprint.detectors.dog import CONTRAST, EDGE, find_dog
from patchprint.features import load, match
from patchprint.features.model import DEFAULT_MODEL
from patchprint.geometry import relative_pose
from patchprint.interop.colmap import PIXEL_CENTER, poses_of_model, read_model
from patchprint.interop.images import limit, list_images, read_gray
from patchprint.metrics.two_view import error_auc
from patchprint.patches.sources.homographies import render_views
from patchprint.types import Features, Keypoints
from perf.release.train_matchability import HELD_OUT, candidates

KEYPOINTS, SIDE, PIXELS = 2000, 720, 3.0
SHARED, LARGEST_SHARE = 30, 0.6  # points that two photos share, and of the points of either at most this part
OPENCV_UNIT = 3  # OpenCV compares three times the response with the contrast threshold
SEED = 0


@dataclass(frozen=True)
class Candidates:
    """All keypoints of an image, and where they lie for the truth about its pair (N, 2)."""

    features: Features
    matchability: Tensor
    on_edge: Tensor
    places: Tensor

    @property
    def keypoints(self) -> Keypoints:
        return self.features.keypoints

    @property
    def response(self) -> Tensor:
        assert self.keypoints.score is not None
        return self.keypoints.score

    def chosen(self, rows: Tensor) -> Features:
        keypoints = dataclasses.replace(self.keypoints[rows], xy=self.places[rows])
        return dataclasses.replace(self.features, keypoints=keypoints, descriptors=self.features.descriptors[rows])


@dataclass(frozen=True)
class Rule:
    """The highest ``score`` above a contrast, off edges (or not), of some size; ``one_angle``: no second angles of a place."""

    score: Callable[[Candidates], Tensor] = lambda of: of.response
    contrast: float = CONTRAST
    edges: bool = False
    smallest: float = 0.0
    spread: bool = False
    one_angle: bool = False

    def __call__(self, of: Candidates) -> Tensor:
        """Rows of what is kept."""
        allowed = of.response >= self.contrast / OPENCV_UNIT
        allowed &= of.keypoints.scale >= self.smallest
        if not self.edges:
            allowed &= ~of.on_edge
        rows = allowed.nonzero()[:, 0]
        if self.one_angle:
            places = torch.cat([of.keypoints.xy, of.keypoints.scale[:, None]], 1)[rows].numpy()
            rows = rows[np.sort(np.unique(places, axis=0, return_index=True)[1])]
        # The angle, which does not matter here, carries the row through the selection.
        numbered = Keypoints(of.keypoints.xy[rows], of.keypoints.scale[rows], rows.float(), self.score(of)[rows])
        return select(numbered, KEYPOINTS, of.features.image_size, self.spread).angle.long()


def response_times_scale(of: Candidates) -> Tensor:
    return of.response * of.keypoints.scale


RULES = {
    "strongest": Rule(),
    "strongest, spread": Rule(spread=True),
    "strongest, one angle": Rule(one_angle=True),
    "strongest, contrast 0.01": Rule(contrast=0.01),
    "strongest, edge 20": Rule(edges=True),
    "strongest, no doubled octave": Rule(smallest=1.6),
    "response x scale": Rule(response_times_scale),
    "response x scale, contrast 0.01, edge 20": Rule(response_times_scale, 0.01, True),
    "learned": Rule(lambda of: of.matchability),
    "learned, contrast 0.01, edge 20 (dog-learned)": Rule(lambda of: of.matchability, 0.01, True),
    "dog-learned, spread": Rule(lambda of: of.matchability, 0.01, True, spread=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--warped", type=int, default=3, help="photos of a scene")
    parser.add_argument("--real", type=int, default=5, help="pairs of a scene")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    started = time.monotonic()
    model = load(DEFAULT_MODEL)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {rule: {"warped": [], "real": []} for rule in RULES}
    truth: dict[str, Truth] = {}
    for scene in HELD_OUT:
        folder, kept = arguments.photos / scene, arguments.cache / scene
        describe = functools.partial(_candidates, model=model, cache=kept)
        pairs = {"warped": warped_pairs(folder, arguments.warped, describe)}
        pairs["real"] = real_pairs(folder, arguments.real, describe)
        for kind, of_kind in pairs.items():
            for a, b, known in tqdm(of_kind, desc=f"{kind} {scene}", unit="pair", disable=None):
                truth[kind] = known
                for name, rule in RULES.items():
                    one, other = a.chosen(rule(a)), b.chosen(rule(b))
                    scores = score_pair(one, other, match(one, other), known, PIXELS)
                    found[name][kind].append({**scores, "keypoints": (len(one) + len(other)) / 2})
    table = {
        name: {kind: _together(pairs, truth[kind]) for kind, pairs in kinds.items() if pairs}
        for name, kinds in found.items()
    }
    for name, kinds in table.items():
        print(f"{name:46}", *(f"{kind} {scores}" for kind, scores in kinds.items()), flush=True)
    settings = {"keypoints": KEYPOINTS, "side": SIDE, "px": PIXELS, "warped": arguments.warped, "real": arguments.real}
    result = provenance.record(
        "keypoint-choice",
        settings=settings,
        model={"name": model.info.name, "sha256": model.info.sha256},
        data={"path": str(arguments.photos), "scenes": list(HELD_OUT)},
        seed=SEED,
        scores=table,
        started=started,
    )
    files.write_json(arguments.out, result.to_json())


Describe = Callable[[str, np.ndarray], Candidates]


def warped_pairs(folder: Path, count: int, describe: Describe) -> Iterator[tuple[Candidates, Candidates, Truth]]:
    names = sorted(list_images(folder / "images"))
    for number in np.random.default_rng(SEED).permutation(len(names))[:count]:
        photo = limit(read_gray(folder / "images" / names[number]), SIDE)
        views = render_views(photo, 1, SEED + int(number))
        a, b = (describe(f"{names[number]}-view{view}", each.image) for view, each in enumerate(views))
        yield a, b, KnownHomography(views[1].homography)


def real_pairs(folder: Path, count: int, describe: Describe) -> Iterator[tuple[Candidates, Candidates, Truth]]:
    model = read_model(folder)
    poses = poses_of_model(model)
    images = sorted((image for image in model.images.values() if image.name in poses), key=lambda image: image.name)
    points = {image.name: {p.point3D_id for p in image.points2D if p.has_point3D()} for image in images}

    def overlaps(one: Any, other: Any) -> bool:
        shared = len(points[one.name] & points[other.name])
        return SHARED <= shared <= LARGEST_SHARE * min(len(points[one.name]), len(points[other.name]))

    pairs = [pair for pair in itertools.combinations(images, 2) if overlaps(*pair)]
    for number in np.random.default_rng(SEED).permutation(len(pairs))[:count]:
        cameras = [model.cameras[image.camera_id] for image in pairs[number]]
        photos = [read_gray(folder / "images" / image.name) for image in pairs[number]]
        shrink = [max(photo.shape) / min(SIDE, max(photo.shape)) for photo in photos]
        # Both as one camera without distortion would see them, in pixels of the smaller copies.
        focal = float(np.mean([each.mean_focal_length() / times for each, times in zip(cameras, shrink, strict=True)]))
        sides = []
        for image, camera, photo, times in zip(pairs[number], cameras, photos, shrink, strict=True):
            found = describe(image.name, limit(photo, SIDE))
            pixels = (found.keypoints.xy.double().numpy() + 0.5) * times - 0.5
            rays = np.asarray(camera.cam_from_img(pixels + PIXEL_CENTER))[:, :2]
            sides.append(dataclasses.replace(found, places=torch.from_numpy(focal * rays).float()))
        poses_here = [poses[image.name] for image in pairs[number]]
        a, b = sides
        yield a, b, KnownCameras(*relative_pose(*poses_here), np.diag([focal, focal, 1.0]))


def _candidates(name: str, image: np.ndarray, model: Any, cache: Path) -> Candidates:
    """Everything that a rule may choose from, described; descriptors come from the cache where they were made before."""
    found = candidates(image)
    kept = cache / f"{name}.npz"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with files.atomic_file(kept) as temporary, open(temporary, "wb") as file:
            np.savez(file, descriptors=model.describe_keypoints(image, found).half().numpy())
    with np.load(kept) as stored:
        descriptors = torch.from_numpy(stored["descriptors"]).float()
    features = Features(found, descriptors, (image.shape[1], image.shape[0]), None, model.id, model.ratio)
    usual = {tuple(row) for row in _rows(find_dog(image, contrast=0.01, edge=EDGE))}
    on_edge = torch.tensor([tuple(row) not in usual for row in _rows(found)])
    score = with_matchability(image, found).score
    assert score is not None
    return Candidates(features, score, on_edge, found.xy)


def _rows(keypoints: Keypoints) -> list[list[float]]:
    return torch.cat([keypoints.xy, keypoints.scale[:, None], keypoints.angle[:, None]], 1).tolist()


def _together(pairs: list[dict[str, Any]], truth: Truth) -> dict[str, float]:
    means = {name: float(np.mean([pair[name] for pair in pairs])) for name in ("right", "precision", "keypoints")}
    errors = [pair["error"] for pair in pairs]
    areas = {f"AUC {limit:g} {truth.unit}": error_auc(errors, limit) for limit in truth.limits}
    return {name: round(value, 4) for name, value in {**means, **areas}.items()} | {"pairs": len(pairs)}


if __name__ == "__main__":
    main()
