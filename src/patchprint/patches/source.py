"""The one interface through which training and benchmarks see patches, wherever they come from."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class PatchSource(Protocol):
    """Points of the world, each seen in several views, each view a patch.

    Shape:
        num_views (N,) int64: how many views point i has; view v of point i is one of range(num_views[i]).
        scene (N,) int64: which scene (sequence, photo collection) a point belongs to.
        Both are on ``device``.
    """

    @property
    def device(self) -> torch.device: ...

    @property
    def num_points(self) -> int: ...

    @property
    def num_views(self) -> Tensor: ...

    @property
    def scene(self) -> Tensor: ...

    def sample(self, points: Tensor, views: Tensor, size: int, warp: Tensor | None = None) -> Tensor:
        """Cut patches.

        ``warp`` is how geometric augmentation reaches the pixels: the value of the patch at u in [-1, 1]^2 is read
        from ``warp[..., :2] @ u + warp[..., 2]`` of the plain patch, which may lie outside of it where the source has
        pixels there (photos) and repeats the border where it has not (stored patches).

        Shape:
            points (P,) int64, views (P, K) int64, warp (P, K, 2, 3) float or None
            -> float32 in [0, 1], (P, K, 1, size, size), on the source's device.
        """
        ...

    def to(self, device: torch.device | str) -> PatchSource: ...
