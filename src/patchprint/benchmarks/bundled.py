"""A benchmark that needs no download: held-out photographs of scikit-image, warped and re-lit, and its stereo pair.

Every describer sees the same keypoints. Three figures: FPR95 of tracked keypoints (verification), average precision of
nearest-neighbour matches between a photograph and its warped copies, and the same on the stereo pair, whose truth is a
measured disparity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.benchmarks.descriptors import nearest, pair_distances
from patchprint.benchmarks.ubc import draw_pairs
from patchprint.features.describers import Describer
from patchprint.interop.opencv import detect_sift
from patchprint.metrics.ranking import average_precision
from patchprint.metrics.verification import fpr95
from patchprint.patches.sources import bundled, homographies
from patchprint.patches.tracks import TrackStore
from patchprint.types import Keypoints

NUM_PAIRS = 20_000
NUM_KEYPOINTS = 1000
MAX_ERROR = 3.0  # pixels


@dataclass(frozen=True, eq=False)
class ImagePair:
    """Two images with keypoints, and where each keypoint of the first lies in the second: (N, 2), nan = nowhere."""

    name: str
    images: tuple[np.ndarray, np.ndarray]
    keypoints: tuple[Keypoints, Keypoints]
    truth: Tensor


def verification(describer: Describer, source: TrackStore, seed: int = 0, num_pairs: int = NUM_PAIRS) -> float:
    """FPR95 over pairs of tracked keypoints, one half of them matching, the other from two points of one scene."""
    pairs = draw_pairs(source, num_pairs, seed)
    rows = source.observation(pairs.points, pairs.views[:, None])[:, 0]
    descriptors = observation_descriptors(describer, source, rows)
    return fpr95(pair_distances(descriptors[pairs.index[:, 0]], descriptors[pairs.index[:, 1]]), pairs.is_match)


def held_out_pairs(views: int = 3, seed: int = 2000) -> list[ImagePair]:
    """Each held-out photograph with its warped copies."""
    pairs = []
    for number, name in enumerate(bundled.HELD_OUT):
        original, *warped = homographies.render_views(bundled.image(name), views, seed=seed + number)
        keypoints = detect_sift(original.image, max_keypoints=NUM_KEYPOINTS)
        for k, view in enumerate(warped):
            truth = homographies.transport(keypoints, view.homography).xy
            found = detect_sift(view.image, max_keypoints=NUM_KEYPOINTS)
            pairs.append(ImagePair(f"{name} {k + 1}", (original.image, view.image), (keypoints, found), truth))
    return pairs


def stereo_pair() -> ImagePair:
    """The motorcycle pair; keypoints without a measured disparity count neither way."""
    pair = bundled.stereo_pair()
    left, right = (detect_sift(image, max_keypoints=2 * NUM_KEYPOINTS) for image in (pair.left, pair.right))
    column, row = left.xy.round().long().unbind(1)
    disparity = torch.from_numpy(np.asarray(pair.disparity, np.float32))[row, column]
    truth = left.xy - torch.stack([disparity, torch.zeros_like(disparity)], 1)
    known = ~disparity.isnan()
    return ImagePair("motorcycle", (pair.left, pair.right), (left[known], right), truth[known])


def matching(describer: Describer, pair: ImagePair) -> dict[str, float]:
    """Nearest neighbours from the first to the second image: average precision and number of correct matches."""
    descriptors = [describer.describe_keypoints(i, k) for i, k in zip(pair.images, pair.keypoints, strict=True)]
    index, distance = nearest(*descriptors)
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


def evaluate(
    describers: dict[str, Describer], seed: int = 0, progress: Callable[[str], None] = lambda text: None
) -> dict[str, dict[str, Any]]:
    """All three figures for every describer, on the same keypoints."""
    source, pairs, stereo = bundled.held_out_source(), held_out_pairs(), stereo_pair()
    scores: dict[str, dict[str, Any]] = {}
    for name, describer in describers.items():
        progress(name)
        held_out = [matching(describer, pair) for pair in pairs]
        scores[name] = {
            "fpr95": verification(describer, source, seed),
            "matching_ap": float(np.mean([score["ap"] for score in held_out])),
            "stereo": matching(describer, stereo),
        }
    return scores


def observation_descriptors(describer: Describer, source: TrackStore, rows: Tensor) -> Tensor:
    """Prints of observations, each described in its own photo and once: rows of ``source.tracks`` (N,) -> (N, D)."""
    tracks = source.tracks
    wanted, place = torch.unique(rows, return_inverse=True)
    chosen = wanted.numpy()
    order, descriptors = [], []
    for image in np.unique(tracks.image[chosen]).tolist():
        here = np.flatnonzero(tracks.image[chosen] == image)
        frames = (torch.from_numpy(values[chosen[here]]) for values in (tracks.xy, tracks.scale, tracks.angle))
        order.append(torch.from_numpy(here))
        descriptors.append(describer.describe_keypoints(source.images.image(image), Keypoints(*frames)))
    return torch.cat(descriptors)[torch.argsort(torch.cat(order))][place]
