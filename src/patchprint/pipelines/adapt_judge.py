"""What tuning gained where it counts: in matching photos that it never saw.

Each held-out photo is matched with the photos that share most points with it. Everybody describes the same keypoints, all that
the detector finds. Where one of them lies on a reconstructed point that the other photo shows as well, its true place there is
known, and so is which matches are right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchprint.detectors import detect
from patchprint.distances import nearest
from patchprint.errors import UserError
from patchprint.features import describe, match, verify
from patchprint.features.calibration import MAX_ERROR
from patchprint.features.model import Model
from patchprint.features.observations import describe_observations
from patchprint.metrics.ranking import average_precision
from patchprint.patches.tracks import TrackStore
from patchprint.training.held_out import HeldOutPoints
from patchprint.types import Features, Keypoints

KEYPOINTS = 2000
PARTNERS = 3  # photos that each held-out photo is matched with
FEWEST_KNOWN = 20  # keypoints whose true place in the other photo is known, in a pair that counts
FEWEST_PAIRS = 3  # by which a difference can be told from chance
HELD_OUT_POINTS = 5000  # among which each is looked for
_ON_A_POINT = 2.0  # pixels from where the reconstruction has the point


@dataclass(frozen=True)
class Measure:
    """A number that models are compared by."""

    label: str
    lower_is_better: bool = False
    is_part: bool = True

    def shown(self, value: float) -> str:
        return f"{100 * value:.2f} %" if self.is_part else f"{value:.1f}"


MEASURES = {
    "ap": Measure("matching AP, held-out photos"),
    "inliers": Measure("verified matches, held-out photos", is_part=False),
    "confused": Measure("confused, held-out points", lower_is_better=True),
}
# What can come of it, and what is done then.
VERDICTS = {
    "gained": "The tuned weights match photos that they never saw better than those they started from, and are written.",
    "lost": "The tuned weights match photos that they never saw worse than those they started from, which are kept: give more "
    "photos, or a lower --lr.",
    "mixed": "The tuned weights are better in one thing and worse in another, so those they started from are kept.",
    "no difference": "Nothing changed beyond chance on these photos, and the start weights are kept.",
}

Scores = dict[str, float]


@dataclass(frozen=True, eq=False)
class PhotoPair:
    """Two photos of a store, by number, their keypoints, and where those of the first truly lie in the second.

    Shape:
        truth (N, 2), NaN where it is not known.
    """

    images: tuple[int, int]
    keypoints: tuple[Keypoints, Keypoints]
    truth: Tensor


class HeldOutPhotos:
    """The judge: pairs of photos, of which at least one is held out, and points of a region that training never sees."""

    def __init__(self, store: TrackStore, unseen: np.ndarray, seed: int) -> None:
        self.store = store
        partners = _partners(store, unseen)
        needed = sorted({number for images in partners for number in images})
        found = {number: detect(store.images.pixels(number), max_keypoints=KEYPOINTS) for number in needed}
        pairs = (_pair(store, images, found) for images in partners)
        self.pairs = [pair for pair in pairs if int(torch.isfinite(pair.truth[:, 0]).sum()) >= FEWEST_KNOWN]
        if not self.pairs:
            raise UserError(
                "the held-out photos show too few of the points of the others; give photos that overlap more"
            )
        self._region = HeldOutPoints(store.split("val"), HELD_OUT_POINTS, seed)

    def measure(self, model: Model) -> tuple[Scores, dict[str, np.ndarray]]:
        """The numbers of a model, and those of each pair for the ones that are means over pairs."""
        described: dict[int, Features] = {}
        for pair in self.pairs:
            for image, keypoints in zip(pair.images, pair.keypoints, strict=True):
                if image not in described:
                    described[image] = describe(self.store.images.pixels(image), keypoints, model)
        by_pair: dict[str, list[float]] = {"ap": [], "inliers": []}
        for pair in self.pairs:
            a, b = (described[image] for image in pair.images)
            by_pair["ap"].append(_matching_ap(a, b, pair.truth))
            inliers = verify(a, b, match(a, b)).inliers
            by_pair["inliers"].append(0 if inliers is None else int(inliers.sum()))
        arrays = {name: np.array(values, np.float64) for name, values in by_pair.items()}
        return {
            **{name: float(values.mean()) for name, values in arrays.items()},
            "confused": self._confused(model),
        }, arrays

    def _confused(self, model: Model) -> float:
        region = self._region
        rows = region.source.observation(region.points, region.views).T.reshape(-1)
        return region.judge(*describe_observations(model, self.store, rows).split(len(region))).confusion


def verdict(start: Mapping[str, np.ndarray], tuned: Mapping[str, np.ndarray]) -> str:
    """One of VERDICTS, from what was measured on each pair before and after.

    A number has changed where the mean difference over pairs is more than twice its standard error. Pairs are taken for
    independent; those of one held-out photo are not quite, so the true error is somewhat larger.
    """
    changes = {_change(tuned[name] - start[name]) for name in start}
    better, worse = 1 in changes, -1 in changes
    return "mixed" if better and worse else "gained" if better else "lost" if worse else "no difference"


def _change(differences: np.ndarray) -> int:
    count = len(differences)
    if count < FEWEST_PAIRS:
        return 0
    error = float(differences.std(ddof=1)) / math.sqrt(count)
    return 0 if abs(differences.mean()) <= 2 * error else int(math.copysign(1, differences.mean()))


def _matching_ap(a: Features, b: Features, truth: Tensor) -> float:
    """Average precision of the nearest neighbors of all keypoints that truly have one among those of the other photo."""
    rows = torch.isfinite(truth[:, 0]).nonzero()[:, 0]
    away = torch.cdist(truth[rows], b.keypoints.xy, compute_mode="donot_use_mm_for_euclid_dist")
    has_one = away.min(1).values <= MAX_ERROR
    distance, index = nearest(a.descriptors[rows], b.descriptors, 1)
    right = (away.gather(1, index)[:, 0] <= MAX_ERROR) & has_one
    return average_precision(distance[:, 0].numpy(), right.numpy(), float(has_one.sum()))


def _partners(store: TrackStore, unseen: np.ndarray) -> list[tuple[int, int]]:
    """Each held-out photo with those that share most points with it."""
    tracks = store.tracks
    chosen: list[tuple[int, int]] = []
    for number in unseen.tolist():
        points = np.unique(tracks.point[tracks.image == number])
        shared = np.bincount(tracks.image[np.isin(tracks.point, points)], minlength=len(store.images))
        shared[number] = 0
        best = np.argsort(-shared, kind="stable")[:PARTNERS]
        chosen += [(number, int(other)) for other in best if shared[other] and (int(other), number) not in chosen]
    return chosen


def _pair(store: TrackStore, images: tuple[int, int], found: Mapping[int, Keypoints]) -> PhotoPair:
    """The truth: keypoints that lie on a point, and where the other photo shows that point."""
    tracks = store.tracks
    of_first, of_second = (np.flatnonzero(tracks.image == number) for number in images)
    _, first, second = np.intersect1d(tracks.point[of_first], tracks.point[of_second], return_indices=True)
    here, there = (torch.from_numpy(np.array(tracks.xy[rows])) for rows in (of_first[first], of_second[second]))
    keypoints = (found[images[0]], found[images[1]])
    truth = torch.full_like(keypoints[0].xy, torch.nan)
    if len(here):
        away = torch.cdist(keypoints[0].xy, here, compute_mode="donot_use_mm_for_euclid_dist")
        distance, which = away.min(1)
        on_point = distance <= _ON_A_POINT
        # The keypoint is beside its point by as much, up to the change of view, as its match will be.
        truth[on_point] = there[which[on_point]]
    return PhotoPair(images, keypoints, truth)
