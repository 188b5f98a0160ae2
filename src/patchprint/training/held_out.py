"""How good descriptors are on points that training never saw: the one judge of training, `adapt` and the choice of weights."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from patchprint import rng
from patchprint.distances import chance_of_same_index, pair_distances
from patchprint.metrics.retrieval import recall_at
from patchprint.metrics.verification import fpr95
from patchprint.networks.base import PatchNetwork
from patchprint.patches.batches import two_views
from patchprint.patches.image_store import ImageStore
from patchprint.patches.source import PatchSource

_CHUNK = 1024


class Missed(NamedTuple):
    """The part of the images whose nearest other image is of another class, 1 - R@1."""

    missed: float


class Scores(NamedTuple):
    """FPR95 in [0, 1], as published, over random negatives; and the part of the points to which, between two of their views,
    another point is nearer than their own, which still tells descriptors apart when FPR95 is down to single pairs."""

    fpr95: float
    confusion: float


Measured = Scores | Missed


class Judge(Protocol):
    """Measures a network on data that it does not learn from; all its numbers are better lower."""

    def __len__(self) -> int: ...

    def measure(self, network: PatchNetwork) -> Measured: ...


def create(source: PatchSource, most: int, seed: int) -> Judge:
    """The judge of a source: up to ``most`` pairs of patches, or images."""
    return (
        HeldOutImages(source, most, seed) if isinstance(source, ImageStore) else HeldOutPoints(source, most // 2, seed)
    )


class HeldOutPoints:
    """Up to ``most`` points of a source in two views each, fixed by the seed, so that all judgements of a run compare.

    Matching pairs are the two views of each point; the other half pairs the first view with the second view of another point.
    Ties count as chance has it.

    Shape:
        points (N,), views (N, 2) on the source's device; N may be 0.
    """

    def __init__(self, source: PatchSource, most: int, seed: int) -> None:
        self.source = source
        usable = torch.nonzero(source.num_views >= 2)[:, 0]
        if len(usable) < 2:
            usable = usable[:0]
        key = rng.fold_in(rng.key(seed, device=source.device), 0x7A11D)
        self.points = usable[rng.permutation(rng.fold_in(key, 1), len(usable))[:most]]
        self.views = two_views(rng.fold_in(key, 2), source.num_views[self.points])

    def __len__(self) -> int:
        return len(self.points)

    def judge(self, first: Tensor, second: Tensor) -> Scores:
        """Scores of the descriptors of first and second views, each (N, D), floats or packed bits."""
        distance = np.concatenate([pair_distances(first, second), pair_distances(first, second.roll(1, 0))])
        _, right = chance_of_same_index(first, second)
        return Scores(float(fpr95(distance, np.arange(2 * len(self)) < len(self))), 1.0 - float(right.mean()))

    def measure(self, network: PatchNetwork) -> Scores:
        """Scores of a network on the patches of the source."""
        parts = []
        for points, views in zip(self.points.split(_CHUNK), self.views.split(_CHUNK), strict=True):
            patches = self.source.sample(points, views, network.input_size)
            parts.append(network.describe(patches.transpose(0, 1).flatten(0, 1)).cpu().chunk(2))
        return self.judge(*(torch.cat(side) for side in zip(*parts, strict=True)))


class HeldOutImages:
    """Up to ``most`` images, fixed by the seed, each searched among the others.

    Shape:
        points (N,), views (N,) on the source's device; N may be 0.
    """

    def __init__(self, source: ImageStore, most: int, seed: int) -> None:
        self.source = source
        points, views = source.all_views()
        key = rng.fold_in(rng.key(seed, device=source.device), 0x7A11D)
        chosen = rng.permutation(key, len(points))[:most]
        self.points, self.views = points[chosen], views[chosen]

    def __len__(self) -> int:
        return len(self.points)

    def measure(self, network: PatchNetwork) -> Missed:
        """The miss rate of a network, in [0, 1]."""
        parts = []
        for points, views in zip(self.points.split(_CHUNK), self.views.split(_CHUNK), strict=True):
            parts.append(network.describe(self.source.sample(points, views[:, None], network.input_size)[:, 0]))
        return Missed(1.0 - recall_at(torch.cat(parts), self.source.label[self.points], (1,)).at[1])
