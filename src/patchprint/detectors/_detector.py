"""What a detector is."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from patchprint.types import Keypoints

FAINTEST = 1e-10  # responses below this are rounding errors on flat ground

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
