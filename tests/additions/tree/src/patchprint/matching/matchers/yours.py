"""The best few of the nearest neighbors, with a score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from patchprint.common.types import Features, Matches
from patchprint.ops.distances import nearest


@dataclass(frozen=True, kw_only=True)
class Best:
    """At most ``count`` matches, those of the least distance."""

    count: int = 50

    def __call__(self, a: Features, b: Features, device: torch.device) -> Matches:
        distance, index = (found[:, 0] for found in nearest(a.descriptors.to(device), b.descriptors.to(device), 1))
        kept = distance.argsort()[: self.count].sort().values if len(b) else torch.zeros(0, dtype=torch.int64)
        return Matches(torch.stack([kept, index[kept]], 1), distance[kept], score=1 / (1 + distance[kept]))


def best(*, count: int = 50) -> Best:
    """The nearest neighbors of the least distance."""
    return Best(count=count)


MATCHERS: dict[str, Callable[..., Best]] = {"yours": best}
