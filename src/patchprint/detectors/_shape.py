"""Orientation and elliptic shape of keypoints found without them, estimated by kornia from the gradients around them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import require
from patchprint.interop.kornia import from_lafs
from patchprint.types import Keypoints

_WINDOW = 19  # pixels of the patch that kornia looks at


def add_shape_and_angle(pixels: Tensor, lafs: Tensor, scores: Tensor, affine: bool) -> Keypoints:
    """Keypoints of frames without angle.

    Shape:
        pixels (1, 1, H, W) in [0, 1], lafs (1, N, 2, 3), scores (N,).
    """
    features: Any = require("kornia.feature", extra="eval")
    if lafs.shape[1] == 0:
        return Keypoints.empty()
    if affine:
        lafs = features.LAFAffineShapeEstimator(_WINDOW)(lafs, pixels)
    keypoints = from_lafs(features.LAFOrienter(_WINDOW)(lafs, pixels), scores)
    # kornia's pyramid stretches x and y by factors that differ in the third digit; that is no affine shape.
    return keypoints if affine else dataclasses.replace(keypoints, affine=None)


def to_tensor(image: np.ndarray) -> Tensor:
    """uint8 (H, W) -> float (1, 1, H, W) in [0, 1]."""
    return torch.from_numpy(np.ascontiguousarray(image))[None, None].float() / 255
