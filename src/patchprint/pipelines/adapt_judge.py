"""What tuning gained where it counts: in matching and mapping photos that it never saw.

Each held-out photo is matched with the photos that share most points with it. Everybody describes the same keypoints, all that
the detector finds. Where one of them lies on a reconstructed point that the other photo shows as well, its true place there is
known, and so is which matches are right. COLMAP makes points of the matches, too (``adapt_sfm``).
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import MissingPackageError, UserError
from patchprint.data.tracks import TrackStore
from patchprint.detectors import detect
from patchprint.features import describe_keypoints
from patchprint.features.model import Model
from patchprint.features.track_descriptors import describe_observations
from patchprint.matching import match, verify
from patchprint.matching.calibration import MAX_ERROR
from patchprint.metrics.average_precision import average_precision
from patchprint.ops.distances import nearest
from patchprint.pipelines.adapt_sfm import COUNTS, PhotosToMap, shared_points
from patchprint.training.held_out import HeldOutPoints
from patchprint.types import Features, Keypoints

KEYPOINTS = 2000
PARTNERS = 3  # photos that each held-out photo is matched with
FEWEST_KNOWN = 20  # keypoints whose true place in the other photo is known, in a pair that counts
FEWEST_SAMPLES = 3  # pairs or photos, by which a difference can be told from chance
HELD_OUT_POINTS = 5000  # among which each is looked for
_ON_A_POINT = 2.0  # pixels from where the reconstruction has the point


@dataclass(frozen=True)
class Measure:
    """A number that models are compared by; a part of 1 is shown as per cent, others with so many ``digits``.

    ``least_change`` is the relative change that says nothing by itself.
    """

    label: str
    lower_is_better: bool = False
    digits: int | None = None
    least_change: float = 0.0

    def shown(self, value: float) -> str:
        return f"{100 * value:.2f} %" if self.digits is None else f"{value:,.{self.digits}f}"


MEASURES = {
    "ap": Measure("matching AP, held-out photos"),
    "inliers": Measure("verified matches, held-out photos", digits=1),
    "confused": Measure("confused, held-out points", lower_is_better=True),
    "registered": Measure("photos in the 3D model", digits=0),
    "points": Measure("points in the 3D model", digits=0),
    "observations": Measure("observations in the 3D model", digits=0, least_change=0.02),
}
# What can come of it, and what is done then.
VERDICTS = {
    "gained": "The tuned weights match or map photos that they never saw better than those they started from, and are written.",
    "lost": "The tuned weights match or map photos that they never saw worse than those they started from, which are kept: "
    "give more photos, or a lower --lr.",
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


@dataclass(frozen=True, eq=False)
class Measured:
    """The numbers of a model by MEASURES, and those of each pair or photo for the ones that a verdict is made from."""

    scores: Scores
    samples: dict[str, np.ndarray]

    def without(self, names: Container[str]) -> Measured:
        return Measured(
            {name: score for name, score in self.scores.items() if name not in names},
            {name: values for name, values in self.samples.items() if name not in names},
        )


class HeldOutPhotos:
    """The judge: pairs of photos, of which at least one is held out, and points of a region that training never sees.

    Args:
        unseen: numbers of the held-out photos.
        reconstruction: folder of the sparse model that the points come from, whose cameras are needed to map photos.
    """

    def __init__(self, store: TrackStore, unseen: np.ndarray, reconstruction: Path | None, seed: int) -> None:
        self.store = store
        self._to_map: PhotosToMap | None = None
        self._not_mapped = "No photos were mapped, since the 3D model that the points come from is gone."
        if reconstruction is not None:
            try:
                self._to_map = PhotosToMap(store, unseen.tolist(), reconstruction, seed)
            except MissingPackageError as error:
                self._not_mapped = f"No photos were mapped: {error}."
        partners = _partners(store, unseen)
        needed = {number for images in partners for number in images}
        needed |= set() if self._to_map is None else set(self._to_map.numbers)
        self._keypoints = {
            number: detect(store.images.pixels(number), max_keypoints=KEYPOINTS) for number in sorted(needed)
        }
        pairs = (_pair(store, images, self._keypoints) for images in partners)
        self.pairs = [pair for pair in pairs if int(torch.isfinite(pair.truth[:, 0]).sum()) >= FEWEST_KNOWN]
        if not self.pairs:
            raise UserError(
                "the held-out photos show too few of the points of the others; give photos that overlap more"
            )
        self._region = HeldOutPoints(store.split("val"), HELD_OUT_POINTS, seed)

    def compare(self, models: Mapping[str, Model]) -> tuple[dict[str, Measured], dict[str, Any]]:
        """What was measured of each model, and how many ``photos`` and ``pairs`` were mapped; or ``left_out``, why not."""
        measured = {name: self.measure(model) for name, model in models.items()}
        if self._to_map is None:
            return measured, {"left_out": self._not_mapped}
        if not any(each.scores["registered"] for each in measured.values()):
            left_out = "COLMAP can make no points of the matches of the held-out photos with those around them."
            return {name: each.without(COUNTS) for name, each in measured.items()}, {"left_out": left_out}
        return measured, {"photos": len(self._to_map.numbers), "pairs": len(self._to_map.pairs)}

    def measure(self, model: Model) -> Measured:
        """All MEASURES of a model; those of 3D models only where photos are mapped."""
        described = {
            number: describe_keypoints(self.store.images.pixels(number), keypoints, model=model)
            for number, keypoints in self._keypoints.items()
        }
        by_pair: dict[str, list[float]] = {"ap": [], "inliers": []}
        for pair in self.pairs:
            a, b = (described[image] for image in pair.images)
            by_pair["ap"].append(_matching_ap(a, b, pair.truth))
            inliers = verify(a, b, match(a, b)).inliers
            by_pair["inliers"].append(0 if inliers is None else int(inliers.sum()))
        samples = {name: np.array(values, np.float64) for name, values in by_pair.items()}
        scores = {name: float(values.mean()) for name, values in samples.items()}
        scores["confused"] = self._confused(model)
        if self._to_map is not None:
            counts, samples["observations"] = self._to_map.map(described)
            scores |= counts
        return Measured(scores, samples)

    def _confused(self, model: Model) -> float:
        region = self._region
        rows = region.source.observation(region.points, region.views).T.reshape(-1)
        return region.judge(*describe_observations(model, self.store, rows).split(len(region))).confusion


def measured_in(scores: Mapping[str, Scores]) -> dict[str, Measure]:
    """Those of MEASURES that every model has a number of."""
    return {name: each for name, each in MEASURES.items() if all(name in score for score in scores.values())}


def verdict(start: Measured, tuned: Measured) -> str:
    """One of VERDICTS, from what was measured on each pair or photo before and after.

    A number has changed where the mean difference over pairs is more than twice its standard error; of observations in a 3D
    model, over its photos. Pairs are taken for independent; those of one held-out photo are not quite, so the true error is
    somewhat larger. Photos of one model even share its points, and COLMAP draws samples at random (another seed changed
    observations by one per cent), so that these must also change by ``least_change``, 2 per cent. Points and registered photos
    are not judged beside observations, which count both.
    """
    changes = {
        _change(after - before, MEASURES[name].least_change * float(before.mean()))
        for name, before, after in ((name, start.samples[name], tuned.samples[name]) for name in start.samples)
    }
    better, worse = 1 in changes, -1 in changes
    return "mixed" if better and worse else "gained" if better else "lost" if worse else "no difference"


def _change(differences: np.ndarray, least: float) -> int:
    """1, -1 or, where it may be chance, 0."""
    count, mean = len(differences), float(differences.mean())
    if count < FEWEST_SAMPLES:
        return 0
    error = float(differences.std(ddof=1)) / math.sqrt(count)
    return 0 if abs(mean) <= max(2 * error, least) else int(math.copysign(1, mean))


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
    chosen: list[tuple[int, int]] = []
    for number in unseen.tolist():
        shared = shared_points(store, number)
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
