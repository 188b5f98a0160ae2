"""Matching along image sequences with known homographies (Oxford affine covariant regions and sets of its form).

Keypoints are found in both images, every descriptor of the first picks its nearest in the second (or pairs are joined
greedily), and the list, ranked by distance, is scored by average precision. The positives there are to find are the pairs
that geometry alone can join one to one. A keypoint of the second image can be found once: of several matches that
rightly name it the nearest counts. So detectors that answer twice at a point (SIFT's second orientations) gain nothing.

Keypoints that the other image does not show are matched as well and count as wrong, unless ``common_region`` drops them first.

``keypoint_noise`` says how many keypoints of the first image that fall inside the second have no counterpart there at
all, and ``detector_limited`` marks pairs where that is more than half: there the detector, not the descriptor, decides.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._features import SequenceSettings, select, sequence_pairs
from patchprint.common.errors import UserError
from patchprint.common.types import Features
from patchprint.metrics.average_precision import Definition, average_precision, mean_average_precision, precision_recall
from patchprint.metrics.correspondence import join_nearest, wholly_inside, within_overlap, within_pixels
from patchprint.ops.distances import nearest
from patchprint.ops.geometry import inside, project

CURVE_POINTS = 50


@dataclass(frozen=True)
class Settings(SequenceSettings):
    # What makes a match right: distance in pixels, or overlap of the regions.
    correct: Literal["reprojection", "overlap"] = "reprojection"
    # Largest distance in pixels of a right match.
    px: float = 4.0
    # Largest overlap error of a right match, after both regions were enlarged to radius 30.
    overlap: float = 0.5
    # Plain nearest neighbor, or VLBenchmarks' greedy joining of pairs, nearest first.
    match: Literal["nn", "greedy"] = "nn"
    # Match only keypoints whose region lies wholly inside both images, as VLBenchmarks does.
    common_region: bool = False
    # Mean precision at positives (matlab) or the trapezoid (python).
    ap: Definition = "matlab"
    # Record precision-recall curves.
    curves: bool = False


class Oxford(Benchmark):
    """Matching along image sequences with known homographies: mAP."""

    settings = Settings
    scoring = frozenset({"correct", "px", "overlap", "match", "common_region", "ap", "sequences", "curves"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return average precision of every pair, its mean per sequence, and the mean over all pairs."""
        if not 0 < settings.overlap <= 0.5:
            raise UserError(f"--overlap {settings.overlap:g} is not between 0 and 0.5")
        pairs: dict[str, dict[str, Any]] = {}
        sequences: dict[str, list[float]] = {}
        for sequence, number, first, other, homography in sequence_pairs(run, settings):
            scores = pairs[f"{sequence}/1-{number}"] = score_pair(first, other, homography, settings)
            sequences.setdefault(sequence, []).append(scores["ap"])
        return {
            "map": mean_average_precision([pair["ap"] for pair in pairs.values()]),
            "sequences": {name: mean_average_precision(values) for name, values in sequences.items()},
            "pairs": pairs,
            "detector_limited": [name for name, pair in pairs.items() if pair["keypoint_noise"] > 0.5],
        }

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"mAP": scores["map"], **scores["sequences"]}


def score_pair(a: Features, b: Features, homography: np.ndarray, settings: Settings) -> dict[str, Any]:
    """Score one pair of images; the homography maps a to b."""
    if settings.common_region:
        a, b = _visible_in_both(a, b, homography)
    if settings.correct == "reprojection":
        counterparts = within_pixels(a.keypoints, b.keypoints, homography, settings.px)
    else:
        counterparts = within_overlap(a.keypoints, b.keypoints, homography, settings.overlap)
    rows, columns, distance = _match(a, b, settings.match)
    right = counterparts.contain(rows, columns)
    counted = right & _first_claims(columns, distance, right)
    positives = max(counterparts.one_to_one(), int(counted.sum()))
    visible = inside(project(homography, a.keypoints.xy.double().numpy()), b.image_size[::-1])
    found = np.isin(np.arange(len(a)), counterparts.rows)
    scores: dict[str, Any] = {
        "ap": average_precision(distance, counted, positives, settings.ap),
        "matches": len(rows),
        "correct": int(counted.sum()),
        "positives": positives,
        "keypoint_noise": round(1.0 - float(found[visible].mean()), 4) if visible.any() else 1.0,
    }
    if settings.curves:
        scores["curve"] = _thinned(*precision_recall(distance, counted, positives))
    return scores


def _visible_in_both(a: Features, b: Features, homography: np.ndarray) -> tuple[Features, Features]:
    """Remove keypoints whose region is cut off by the border of one of the images."""
    shape_a, shape_b = a.image_size[::-1], b.image_size[::-1]
    in_a = wholly_inside(a.keypoints, shape_a) & wholly_inside(a.keypoints, shape_b, homography)
    in_b = wholly_inside(b.keypoints, shape_b) & wholly_inside(b.keypoints, shape_a, np.linalg.inv(homography))
    return select(a, in_a), select(b, in_b)


def _match(a: Features, b: Features, how: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return matches as rows of a, rows of b and distances, each (M,)."""
    if len(a) == 0 or len(b) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    if how == "nn":
        distance, columns = (values[:, 0].numpy() for values in nearest(a.descriptors, b.descriptors, exact=True))
        return np.arange(len(a)), columns, distance
    return join_nearest(a.descriptors, b.descriptors)


def _first_claims(columns: np.ndarray, distance: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return whether a match is the nearest right one of its keypoint in the second image, (M,) bool."""
    candidates = np.flatnonzero(right)
    candidates = candidates[np.argsort(distance[candidates], kind="stable")]
    _, first = np.unique(columns[candidates], return_index=True)
    claims = np.zeros(len(columns), dtype=bool)
    claims[candidates[first]] = True
    return claims


def _thinned(precision: np.ndarray, recall: np.ndarray) -> dict[str, list[float]]:
    chosen = np.unique(np.linspace(0, len(recall) - 1, min(CURVE_POINTS, len(recall))).astype(int))
    return {"precision": precision[chosen].round(4).tolist(), "recall": recall[chosen].round(4).tolist()}
