"""The `Detector` type, and how the keypoints to keep are selected."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from patchprint.types import Keypoints

FAINTEST = 1e-10  # responses below this are rounding errors in uniform areas
CELL = 16  # keypoints that a cell of the spreading grid should hold

# Image uint8 (H, W), how many keypoints are wanted at least (None: the detector's own number), mask (H, W) or None.
Find = Callable[[np.ndarray, int | None, np.ndarray | None], Keypoints]


@dataclass(frozen=True)
class Detector:
    """A way to find keypoints.

    ``finds`` says what it answers to, which decides the known images that its positions, scales and angles are tested with.
    ``find`` may return more than are wanted; ``detect`` keeps the strongest. A detector without scores is ordered by scale,
    one that knows no scale or no angle returns a fixed scale and angle 0. ``settings`` are named sets of further arguments
    of ``find``. ``package`` is what must be installed for it.
    """

    summary: str
    finds: Literal["blobs", "corners", "other"]
    find: Find
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    package: str = "cv2"

    def named(self, setting: str) -> Detector:
        """The detector with one of its named settings."""
        arguments = self.settings[setting]
        text = ", ".join(f"{name} {value}" for name, value in arguments.items())
        return dataclasses.replace(
            self, summary=f"{self.summary}; {text}", find=functools.partial(self.find, **arguments), settings={}
        )


def keep_inside(keypoints: Keypoints, mask: np.ndarray | None) -> Keypoints:
    """Only the keypoints where the mask (H, W) is not zero."""
    if mask is None or len(keypoints) == 0:
        return keypoints
    column, row = keypoints.xy.round().long().unbind(1)
    allowed = torch.from_numpy(np.asarray(mask) != 0)
    return keypoints[allowed[row.clamp(0, allowed.shape[0] - 1), column.clamp(0, allowed.shape[1] - 1)]]


def strongest_first(keypoints: Keypoints, count: int | None = None) -> Keypoints:
    """Ordered by score, or by scale where there is none; the first ``count``."""
    score = keypoints.scale if keypoints.score is None else keypoints.score
    return keypoints[torch.argsort(score, descending=True, stable=True)[:count]]


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
