"""SDGMNet's Fig. 5 task: 200 random keypoints, plain nearest neighbors, and whether the image pair can be solved.

The keypoints are drawn from the strongest of the first image. They are looked for among the strongest of the second, or with
``all_of_second`` among all of them, as in the paper. Every descriptor picks its nearest, without ratio test. Right matches are
counted, and a homography is estimated from all matches by RANSAC: its error is the mean distance in pixels at the corners of
the first image.
"""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._features import SequenceSettings, sequence_pairs
from patchprint.common.types import Features, Matches
from patchprint.matching.two_view_geometry import estimate_geometry
from patchprint.metrics.correspondence import reprojection_errors
from patchprint.metrics.geometry import corner_error
from patchprint.ops.distances import nearest


@dataclass(frozen=True)
class Settings(SequenceSettings):
    # Keep all keypoints of the second image, as SDGMNet's figure does.
    all_of_second: bool = False
    # Keypoints drawn in the first image.
    draw: int = 200
    # Largest distance in pixels of a right match.
    px: float = 4.0
    # Largest mean corner error in pixels of a solved pair.
    solved_px: float = 5.0


class Pairs(Benchmark):
    """200 random keypoints: right matches, and whether the homography is found."""

    settings = Settings
    scoring = frozenset({"draw", "px", "solved_px", "sequences"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return right matches and corner errors of every pair, and how many pairs were solved."""
        pairs: dict[str, dict[str, Any]] = {}
        for sequence, number, first, other, homography in sequence_pairs(run, settings, settings.all_of_second):
            name = f"{sequence}/1-{number}"
            rng = np.random.default_rng([run.seed, zlib.crc32(name.encode())])
            pairs[name] = score_pair(first, other, homography, settings, rng)
        correct = [pair["correct"] for pair in pairs.values()]
        drawn = [pair["drawn"] for pair in pairs.values()]
        return {
            "correct": float(np.mean(correct)),
            "accuracy": float(np.sum(correct) / max(np.sum(drawn), 1)),
            "solved": sum(pair["solved"] for pair in pairs.values()),
            "num_pairs": len(pairs),
            "pairs": pairs,
        }

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"correct": scores["correct"], "solved": scores["solved"], "of pairs": scores["num_pairs"]}


def score_pair(
    a: Features, b: Features, homography: np.ndarray, settings: Settings, rng: np.random.Generator
) -> dict[str, Any]:
    """Score one pair of images; the homography maps a to b."""
    drawn = np.sort(rng.permutation(len(a))[: settings.draw])
    if len(drawn) == 0 or len(b) == 0:
        return {"drawn": len(drawn), "correct": 0, "corner_error": None, "solved": False}
    distance, neighbor = nearest(a.descriptors[drawn], b.descriptors, exact=True)
    index = neighbor[:, 0].numpy()
    errors = reprojection_errors(a.keypoints[drawn], b.keypoints[index], homography)
    matches = Matches(torch.from_numpy(np.stack([drawn, index], 1)), distance[:, 0].float())
    estimate = estimate_geometry(a, b, matches, "homography").model  # without a verdict, as the paper does it
    error = corner_error(None if estimate is None else estimate.numpy(), homography, a.image_size)
    return {
        "drawn": len(drawn),
        "correct": int((errors < settings.px).sum()),
        "corner_error": error,
        "solved": error is not None and error <= settings.solved_px,
    }
