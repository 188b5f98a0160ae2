"""Nearest neighbors in descriptor space that pass a test: mutual, ratio, both, FGINN, or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from patchprint.common.types import Features, Matches
from patchprint.features.model import LOWE_RATIO
from patchprint.ops.distances import Backend, nearest, nearest_inconsistent

FGINN_RADIUS = 10.0  # pixels


@dataclass(frozen=True, kw_only=True)
class NearestNeighbors:
    """Nearest neighbors from a to b.

    Attributes:
        mutual: keep a match only if each descriptor is the nearest of the other.
        tests_ratio: keep a match only if its distance is below ``ratio`` times that of the second nearest.
        ratio: None takes the ratio that the features carry, else Lowe's.
        radius: take as second nearest one that lies more than so many pixels away from the first.
        max_distance: drop matches above this distance.
    """

    mutual: bool = False
    tests_ratio: bool = False
    ratio: float | None = None
    radius: float | None = None
    max_distance: float | None = None
    backend: Backend = "auto"

    def __call__(self, a: Features, b: Features, device: torch.device) -> Matches:
        of_a, of_b = a.descriptors.to(device), b.descriptors.to(device)
        second_needed = self.tests_ratio and self.radius is None
        distance, index = nearest(of_a, of_b, 2 if second_needed else 1, self.backend)
        first = index[:, 0]
        keep = first >= 0
        if self.tests_ratio and len(b):
            if self.radius is not None:
                xy = b.keypoints.xy.to(device)
                second = nearest_inconsistent(of_a, of_b, first.to(device), xy, self.radius).cpu()
            else:
                second = distance[:, 1]
            ratio = self.ratio if self.ratio is not None else a.ratio if a.ratio is not None else LOWE_RATIO
            keep &= distance[:, 0] < ratio * second
        if self.mutual and len(a) and len(b):
            # Cross-check only candidates that passed the ratio test.
            rows = torch.nonzero(keep)[:, 0]
            asked, which = torch.unique(first[rows], return_inverse=True)
            _, back = nearest(of_b[asked.to(device)], of_a, 1, self.backend)
            keep[rows] = back[which, 0] == rows
        if self.max_distance is not None:
            keep &= distance[:, 0] <= self.max_distance
        rows = torch.nonzero(keep)[:, 0]
        return Matches(torch.stack([rows, first[rows]], 1), distance[rows, 0])


def nearest_neighbors(*, max_distance: float | None = None, backend: Backend = "auto") -> NearestNeighbors:
    """Nearest neighbors, all of them."""
    return NearestNeighbors(max_distance=max_distance, backend=backend)


def mutual(*, max_distance: float | None = None, backend: Backend = "auto") -> NearestNeighbors:
    """Mutual nearest neighbors."""
    return NearestNeighbors(mutual=True, max_distance=max_distance, backend=backend)


def ratio_test(
    *, ratio: float | None = None, max_distance: float | None = None, backend: Backend = "auto"
) -> NearestNeighbors:
    """Nearest neighbors that pass the ratio test."""
    return NearestNeighbors(tests_ratio=True, ratio=ratio, max_distance=max_distance, backend=backend)


def mutual_ratio(
    *, ratio: float | None = None, max_distance: float | None = None, backend: Backend = "auto"
) -> NearestNeighbors:
    """Mutual nearest neighbors that pass the ratio test."""
    return NearestNeighbors(mutual=True, tests_ratio=True, ratio=ratio, max_distance=max_distance, backend=backend)


def fginn(
    *,
    ratio: float | None = None,
    radius: float = FGINN_RADIUS,
    max_distance: float | None = None,
    backend: Backend = "auto",
) -> NearestNeighbors:
    """Mutual nearest neighbors, ratio to the first geometrically inconsistent one (Mishkin et al. 2015).

    The second nearest is searched more than ``radius`` pixels away from the first, so that repeated detections of one structure
    do not discard each other.
    """
    return NearestNeighbors(
        mutual=True, tests_ratio=True, ratio=ratio, radius=radius, max_distance=max_distance, backend=backend
    )


MATCHERS: dict[str, Callable[..., NearestNeighbors]] = {
    "nearest": nearest_neighbors,
    "mutual": mutual,
    "ratio": ratio_test,
    "mutual+ratio": mutual_ratio,
    "fginn": fginn,
}
