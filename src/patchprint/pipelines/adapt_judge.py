"""Measure what tuning gained: verified matches in pairs of images of which training never saw at least one.

Each held-out image is matched with the images that share most points with it. All models describe the same keypoints.
"""

import math
from collections.abc import Mapping

import numpy as np

from patchprint.common.errors import UserError
from patchprint.data.tracks import TrackStore
from patchprint.detectors import detect
from patchprint.features import describe_keypoints
from patchprint.features.model import Model
from patchprint.matching import match, verify
from patchprint.matching.matchers import DEFAULT_MATCHER

KEYPOINTS = 2000
PARTNERS = 3  # images that each held-out image is matched with
MIN_SHARED_POINTS = 20  # of a pair that counts
MIN_PAIRS = 3  # for a difference to be told from chance

VERDICTS = {
    "gained": "The tuned weights give more verified matches on images that they never saw than the start weights, and are "
    "written.",
    "lost": "The tuned weights give fewer verified matches on images that they never saw than the start weights, which are "
    "kept: give more images, or a lower --lr.",
    "no difference": "Nothing changed beyond chance on these images, and the start weights are kept.",
}

MATCHER_VERDICTS = {
    "gained": "The tuned matcher gives more verified matches on images that it never saw than the one before, and is written.",
    "lost": "The tuned matcher gives fewer verified matches on images that it never saw than the one before, which is written.",
    "no difference": "The tuned matcher changed nothing beyond chance on these images, and the one before is written.",
}


def conclusion(model: Mapping[str, str]) -> str:
    """Say what was gained, by the entry ``model`` of a result of `adapt`."""
    said = [VERDICTS[model["verdict"]]] if "verdict" in model else []
    return " ".join(said + ([MATCHER_VERDICTS[model["matcher_verdict"]]] if "matcher_verdict" in model else []))


class HeldOutPairs:
    """Pairs of images of a store, each with a held-out image and one that overlaps it.

    Args:
        held_out: numbers of the held-out images.
    """

    def __init__(self, store: TrackStore, held_out: np.ndarray) -> None:
        self.held_out = held_out
        self.pairs = _overlapping(store, held_out)
        if not self.pairs:
            raise UserError("the held-out images share too few points with the others; give images that overlap more")
        self._pixels = {
            number: store.images.pixels(number) for number in sorted({n for pair in self.pairs for n in pair})
        }
        self._keypoints = {number: detect(image, max_keypoints=KEYPOINTS) for number, image in self._pixels.items()}

    def verified_matches(self, model: Model, matcher: str = DEFAULT_MATCHER) -> np.ndarray:
        """Count the matches of each pair that agree with one geometry.

        Shape:
            (len(self.pairs),) float64.
        """
        features = {
            n: describe_keypoints(self._pixels[n], keypoints, model=model) for n, keypoints in self._keypoints.items()
        }
        pairs = [(features[a], features[b]) for a, b in self.pairs]
        found = [verify(a, b, match(a, b, matcher)).inliers for a, b in pairs]
        return np.array([0 if inliers is None else int(inliers.sum()) for inliers in found], np.float64)


def verdict(start: np.ndarray, tuned: np.ndarray) -> str:
    """Return the key of VERDICTS, from the verified matches of each pair before and after.

    The mean difference counts where it is more than twice its standard error over the pairs. Pairs are taken for independent;
    those of one held-out image are not quite, so the true error is somewhat larger.
    """
    difference = tuned - start
    if len(difference) < MIN_PAIRS:
        return "no difference"
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    mean = float(difference.mean())
    return "no difference" if abs(mean) <= 2 * error else "gained" if mean > 0 else "lost"


def _overlapping(store: TrackStore, held_out: np.ndarray) -> list[tuple[int, int]]:
    """Pair each held-out image with the images that share most points with it; no pair comes twice."""
    tracks = store.tracks
    chosen: list[tuple[int, int]] = []
    for number in held_out.tolist():
        points = np.unique(tracks.point[tracks.image == number])
        shared = np.bincount(tracks.image[np.isin(tracks.point, points)], minlength=len(store.images))
        shared[number] = 0
        best = np.argsort(-shared, kind="stable")[:PARTNERS]
        chosen += [
            (number, int(other))
            for other in best
            if shared[other] >= MIN_SHARED_POINTS and (int(other), number) not in chosen
        ]
    return chosen
