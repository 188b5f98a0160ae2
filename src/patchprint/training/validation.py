"""FPR95 on held-out points: a pair list that is fixed by the seed, so that all validations of a run compare."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from patchprint import rng
from patchprint.metrics.verification import fpr95
from patchprint.networks.base import PatchNetwork
from patchprint.patches.source import PatchSource

_CHUNK = 1024


class Scores(NamedTuple):
    """FPR95 in [0, 1], as published; and how many points are confused with another one, which still tells networks apart
    when FPR95 with its random negatives is down to single pairs."""

    fpr95: float
    confusion: float


class Validation:
    """Half of the pairs show one point in two views; the other half pairs the same patches with those of other points."""

    def __init__(self, source: PatchSource, pairs: int, seed: int) -> None:
        usable = torch.nonzero(source.num_views >= 2)[:, 0]
        self.source = source
        self.count = min(pairs // 2, len(usable)) if len(usable) >= 2 else 0
        if not self.count:
            return
        key = rng.fold_in(rng.key(seed, device=source.device), 0x7A11D)
        self.points = usable[rng.permutation(rng.fold_in(key, 1), len(usable))[: self.count]]
        number = source.num_views[self.points]
        first = rng.integers(rng.fold_in(key, 2), number, (self.count,))
        other = (first + 1 + rng.integers(rng.fold_in(key, 3), number - 1, (self.count,))) % number
        self.views = torch.stack([first, other], 1)

    def measure(self, network: PatchNetwork) -> Scores:
        anchor, positive = self._describe(network)
        distance = torch.cat([_distance(anchor, positive), _distance(anchor, positive.roll(1, 0))])
        is_match = torch.arange(2 * self.count) < self.count
        return Scores(float(fpr95(distance.numpy(), is_match.numpy())), _confusion(anchor, positive))

    def _describe(self, network: PatchNetwork) -> tuple[Tensor, Tensor]:
        parts = []
        for points, views in zip(self.points.split(_CHUNK), self.views.split(_CHUNK), strict=True):
            patches = self.source.sample(points, views, network.input_size)
            parts.append(network.describe(patches.transpose(0, 1).flatten(0, 1)).cpu().chunk(2))
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _confusion(anchor: Tensor, positive: Tensor) -> float:
    """Part of the anchors to which some other positive is as near as their own."""
    anchor, positive = _as_vectors(anchor), _as_vectors(positive)
    wrong = 0
    for start in range(0, len(anchor), _CHUNK):
        cosine = anchor[start : start + _CHUNK] @ positive.T
        own = cosine.diagonal(start)[:, None]
        wrong += int(((cosine >= own).sum(1) > 1).sum())
    return wrong / len(anchor)


def _as_vectors(descriptors: Tensor) -> Tensor:
    """Packed bits as signs, so that their inner product falls as the Hamming distance grows."""
    if descriptors.dtype != torch.uint8:
        return descriptors
    bits = (descriptors[:, :, None] >> torch.arange(8, dtype=torch.uint8)) & 1
    return bits.flatten(1).float() * 2 - 1


def _distance(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance of unit vectors, Hamming distance of packed bits, (N,) float64."""
    if a.dtype == torch.uint8:
        shifts = torch.arange(8, dtype=torch.uint8)
        return (((a ^ b)[:, :, None] >> shifts) & 1).sum((1, 2), dtype=torch.float64)
    return (a.double() - b.double()).norm(dim=1)
