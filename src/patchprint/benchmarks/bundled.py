"""Benchmark without downloads: held-out images of scikit-image, warped and re-lit, and its stereo pair.

Every model sees the same keypoints. Three figures: FPR95 of tracked keypoints (verification), average precision of
nearest-neighbor matches between an image and its warped copies, and the same on the stereo pair, whose truth is a
measured disparity.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.common.types import Keypoints
from patchprint.data.builders import bundled_images
from patchprint.data.builders.homographies import ImagePair, warped_pairs
from patchprint.data.patch_pairs import draw_pairs
from patchprint.data.tracks import TrackStore
from patchprint.detectors import detect
from patchprint.features.model import Model
from patchprint.metrics.average_precision import average_precision
from patchprint.metrics.verification import curves, fpr95
from patchprint.ops.distances import nearest

MAX_ERROR = 3.0  # pixels
WARPED, WARP_SEED = 3, 2000  # copies of each image, and what they are drawn with


@dataclass(frozen=True)
class Settings:
    # Pairs of tracked keypoints; half of them match.
    pairs: int = 20_000
    # Strongest keypoints kept in each image; twice as many in the stereo pair.
    keypoints: int = 1000
    # One of the detectors of patchprint describe.
    detector: str = "dog-published"


class Bundled(Benchmark):
    """Verification and matching on images that scikit-image ships; needs no data."""

    settings = Settings
    lower_is_better = frozenset({"FPR95 %"})
    data_package = "scikit-image"

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return FPR95 in [0, 1], mean average precision on warped images, and scores of the stereo pair."""
        images = map(bundled_images.image, bundled_images.HELD_OUT)
        pairs = warped_pairs(images, WARPED, WARP_SEED, lambda image: _find(image, settings.keypoints, settings))
        distance, is_match = verification(run.patch_model, bundled_images.held_out_source(), run.seed, settings.pairs)
        return {
            "fpr95": fpr95(distance, is_match),
            "curves": curves(distance, is_match),
            "matching_ap": float(np.mean([matching(run.patch_model, pair)["ap"] for pair in pairs])),
            "stereo": matching(run.patch_model, stereo_pair(settings)),
        }

    def headline(self, scores: Scores) -> dict[str, float]:
        stereo = scores["stereo"]
        return {
            "FPR95 %": 100 * scores["fpr95"],
            "matching AP": scores["matching_ap"],
            "stereo AP": stereo["ap"],
            "stereo correct": stereo["correct"],
            "of": stereo["possible"],
        }


def verification(model: Model, source: TrackStore, seed: int, num_pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return distances of pairs of tracked keypoints, half of them matching, half of two points of one scene.

    Shape:
        -> distance (N,), is_match (N,).
    """
    pairs = draw_pairs(source, num_pairs, seed)
    rows = source.observation(pairs.points, pairs.views[:, None])[:, 0]
    descriptors = _describe_observations(model, source, rows)
    return pairs.distances(descriptors), pairs.is_match


def _describe_observations(model: Model, store: TrackStore, rows: Tensor) -> Tensor:
    """Describe rows of ``store.tracks``; every distinct one is described once.

    Shape:
        rows (N,) int64 -> (N, D).
    """
    tracks = store.tracks
    distinct, place = torch.unique(rows.cpu(), return_inverse=True)
    chosen = distinct.numpy()
    order, descriptors = [], []
    for image in np.unique(tracks.image[chosen]).tolist():
        here = np.flatnonzero(tracks.image[chosen] == image)
        frames = (torch.from_numpy(values[chosen[here]]) for values in (tracks.xy, tracks.scale, tracks.angle))
        order.append(torch.from_numpy(here))
        descriptors.append(model.describe_keypoints(store.images.pixels(image), Keypoints(*frames)))
    return torch.cat(descriptors)[torch.argsort(torch.cat(order))][place]


def stereo_pair(settings: Settings) -> ImagePair:
    """Return the motorcycle pair; keypoints without a measured disparity are not counted."""
    pair = bundled_images.stereo_pair()
    left, right = (_find(image, 2 * settings.keypoints, settings) for image in (pair.left, pair.right))
    column, row = left.xy.round().long().unbind(1)
    disparity = torch.from_numpy(np.asarray(pair.disparity, np.float32))[row, column]
    truth = left.xy - torch.stack([disparity, torch.zeros_like(disparity)], 1)
    known = ~disparity.isnan()
    return ImagePair((pair.left, pair.right), (left[known], right), truth[known])


def matching(model: Model, pair: ImagePair) -> dict[str, Any]:
    """Match nearest neighbors from the first to the second image; return average precision and correct matches."""
    first, second = (model.describe_keypoints(i, k) for i, k in zip(pair.images, pair.keypoints, strict=True))
    distance, index = (values[:, 0] for values in nearest(first, second, exact=True))
    error = (pair.keypoints[1].xy[index] - pair.truth).norm(dim=1)
    possible = (
        torch.cdist(pair.truth, pair.keypoints[1].xy, compute_mode="donot_use_mm_for_euclid_dist").min(dim=1).values
        <= MAX_ERROR
    )
    correct = error <= MAX_ERROR
    return {
        "ap": average_precision(distance, correct.numpy(), num_positives=int(possible.sum())),
        "correct": int(correct.sum()),
        "possible": int(possible.sum()),
        "keypoints": len(correct),
    }


def _find(image: np.ndarray, count: int, settings: Settings) -> Keypoints:
    return detect(image, settings.detector, max_keypoints=count, spread=False)
