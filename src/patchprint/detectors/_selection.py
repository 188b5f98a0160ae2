"""Which keypoints stay when there are more than wanted."""

from __future__ import annotations

import torch
from torch import Tensor

from patchprint.detectors._detector import strongest_first
from patchprint.types import Keypoints

CELL = 16  # keypoints that a cell of the spreading grid should hold


def select(keypoints: Keypoints, count: int, image_size: tuple[int, int], spread: bool = True) -> Keypoints:
    """The ``count`` strongest keypoints; with ``spread``, each cell of a grid first sends its share, if it has it."""
    ordered = strongest_first(keypoints)
    if not spread or len(ordered) <= count:
        return ordered[:count]
    beyond_share = _beyond_share(ordered, count, image_size)
    return ordered[torch.argsort(beyond_share.int(), stable=True)[:count].sort().values]


def candidates(keypoints: Keypoints, count: int, image_size: tuple[int, int], spread: bool = True) -> Keypoints:
    """Those of the keypoints in a part of an image that `select` may choose from all of them, strongest first."""
    ordered = strongest_first(keypoints)
    if not spread or len(ordered) <= count:
        return ordered[:count]
    return ordered[(torch.arange(len(ordered)) < count) | ~_beyond_share(ordered, count, image_size)]


def _beyond_share(ordered: Keypoints, count: int, image_size: tuple[int, int]) -> Tensor:
    """Which keypoints come after the share of their cell of the grid, (N,) bool."""
    width, height = image_size
    cells_per_side = max(1, int((count / CELL) ** 0.5))
    column = (ordered.xy[:, 0] / width * cells_per_side).long().clamp(0, cells_per_side - 1)
    row = (ordered.xy[:, 1] / height * cells_per_side).long().clamp(0, cells_per_side - 1)
    return _rank_within(row * cells_per_side + column) >= count // cells_per_side**2


def _rank_within(group: Tensor) -> Tensor:
    """How many earlier entries belong to the same group, (N,)."""
    order = torch.argsort(group, stable=True)
    ordered = group[order]
    position = torch.arange(len(group))
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    start = torch.cummax(torch.where(is_first, position, 0), 0).values
    rank = torch.empty_like(position)
    rank[order] = position - start
    return rank
