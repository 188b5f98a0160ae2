"""Calibrate the threshold of the ratio test for a model.

Pairs with ground truth are made from any images: each is warped and re-lit, keypoints are detected in the copy, and the
homography decides which matches are right.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.common.types import Features
from patchprint.data import manifest, track_files
from patchprint.data.builders import bundled_images, homographies
from patchprint.detectors import detect
from patchprint.features.extract import Found, describe_found
from patchprint.features.model import Model, ModelLike, load
from patchprint.matching.matchers import match
from patchprint.networks import weights
from patchprint.ops.distances import nearest

MAX_ERROR = 3.0  # pixels
CALIBRATION_IMAGES = 6  # of the images that a network learned from: enough for a threshold in steps of 0.01
KEYPOINTS, VIEWS, SEED = 1000, 3, 3000  # what the thresholds of the shipped weights were chosen with

LabeledPair = tuple[Features, Features, Tensor]


@dataclass(frozen=True)
class RatioChoice:
    """A threshold, and the shares of right and of wrong mutual neighbors that pass it."""

    ratio: float
    right_kept: float
    wrong_kept: float


def calibrate(
    model: ModelLike,
    images: Iterable[np.ndarray] | None = None,
    *,
    views: int = VIEWS,
    keypoints: int = KEYPOINTS,
    seed: int = SEED,
) -> RatioChoice:
    """Choose the threshold for ``model`` on warped copies of ``images``, uint8 (H, W); by default images of scikit-image."""
    if views < 1:
        raise UserError(f"views is {views}; a ratio is chosen on at least 1 warped copy of each image")
    chosen = map(bundled_images.image, bundled_images.TRAINING) if images is None else images
    pairs = homographies.warped_pairs(chosen, views, seed, lambda image: detect(image, "dog", max_keypoints=keypoints))
    return choose_ratio(_described(pairs, load(model)))


def some_images(store: str | Path, count: int = CALIBRATION_IMAGES) -> list[np.ndarray]:
    """Read ``count`` images of a store, evenly spaced; none of a store of patches."""
    if manifest.read(store)["kind"] != track_files.KIND:
        return []
    stored = track_files.read(store)
    return [stored.image(number) for number in spread_over(len(stored.sizes), count)]


def spread_over(total: int, count: int) -> list[int]:
    """Choose ``count`` of range(total), evenly spaced, or all of it."""
    return np.linspace(0, total - 1, min(total, count)).round().astype(int).tolist()


def refuse_ratio(path: str | Path) -> None:
    """Raise UserError where `write_ratio` would, before a threshold is chosen."""
    if not Path(path).is_file():
        raise UserError(f"{path} is no weight file; a threshold can only be written into a file")


def write_ratio(path: str | Path, ratio: float) -> None:
    """Store a threshold in a weight file of patchprint; its weights and their checksum stay as they are."""
    refuse_ratio(path)
    weights.rewrite_info(path, dataclasses.replace(weights.read_info(path), ratio=ratio))


def choose_ratio(pairs: Iterable[LabeledPair]) -> RatioChoice:
    """Choose the threshold, in steps of 0.01, with the largest difference of right and wrong matches kept.

    Args:
        pairs: features of two images, and where each keypoint of the first truly lies in the second, (N, 2), not finite
            where that is unknown or outside.
    """
    quotients, rights = [], []
    for a, b, truth in pairs:
        rows, columns = match(a, b, "mutual").indices.unbind(1)
        known = torch.isfinite(truth[rows]).all(1)
        rows, columns = rows[known], columns[known]
        distance, _ = nearest(a.descriptors[rows], b.descriptors, 2)
        quotients.append(distance[:, 0] / distance[:, 1].clamp(min=1e-9))
        rights.append((b.keypoints.xy[columns] - truth[rows]).norm(dim=1) <= MAX_ERROR)
    quotient, right = torch.cat(quotients), torch.cat(rights)
    if not right.any() or right.all():
        raise UserError("a ratio cannot be chosen: the matches are all right or all wrong; give other pairs")
    candidates = [RatioChoice(percent / 100, *_kept(quotient < percent / 100, right)) for percent in range(50, 101)]
    return max(candidates, key=lambda choice: choice.right_kept - choice.wrong_kept)


def _described(pairs: Iterable[homographies.ImagePair], model: Model) -> Iterator[LabeledPair]:
    original: Features | None = None
    for pair in pairs:
        # An original comes with all of its copies, one after the other: it is described once.
        if original is None or original.keypoints is not pair.keypoints[0]:
            original = describe_found(Found(pair.images[0], pair.keypoints[0]), model)
        yield original, describe_found(Found(pair.images[1], pair.keypoints[1]), model), pair.truth


def _kept(passing: Tensor, right: Tensor) -> tuple[float, float]:
    return round(float(passing[right].float().mean()), 4), round(float(passing[~right].float().mean()), 4)
