"""kornia: local affine frames (LAFs) in both directions.

kornia puts the center of the top-left pixel at (0, 0), as we do. A LAF is a 2 x 3 matrix ``[L | xy]`` that maps the square
[-1, 1]^2 to the whole patch, so ``L = mr_size * A`` with our frame ``A`` in units of sigma and ``mr_size`` half of
``patch_scale``. The matrices agree in direction; only kornia's orientation *numbers* (``get_laf_orientation``,
``laf_from_center_scale_ori``) are measured the other way round, and they do not pass through here.
"""

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError, require
from patchprint.common.types import Keypoints

MR_SIZE = 6.0  # kornia's default: half the side of a patch in units of sigma
_WINDOW = 19  # pixels of the patch that kornia looks at for shapes and angles


def to_lafs(keypoints: Keypoints, mr_size: float = MR_SIZE) -> Tensor:
    """Keypoints to LAFs (1, N, 2, 3)."""
    return torch.cat([keypoints.frames() * mr_size, keypoints.xy[..., None]], -1)[None]


def from_lafs(lafs: Tensor, score: Tensor | None = None, mr_size: float = MR_SIZE) -> Keypoints:
    """LAFs (N, 2, 3) or (1, N, 2, 3) to Keypoints; frames without shear become scale and angle."""
    if lafs.ndim == 4:
        if len(lafs) != 1:
            raise UserError(f"LAFs of {len(lafs)} images; Keypoints are those of one image")
        lafs = lafs[0]
    keypoints = Keypoints.from_affine(lafs[..., 2], lafs[..., :2] / mr_size, None if score is None else score.flatten())
    similar = dataclasses.replace(keypoints, affine=None)
    return similar if torch.allclose(similar.frames(), keypoints.frames(), rtol=1e-4, atol=1e-4) else keypoints


def add_shape_and_angle(pixels: Tensor, lafs: Tensor, scores: Tensor, affine: bool) -> Keypoints:
    """Estimate the orientation, and with ``affine`` the elliptic shape, of frames without them, from the gradients around.

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
    """Convert an image, uint8 (H, W) -> float (1, 1, H, W) in [0, 1]."""
    return torch.from_numpy(np.ascontiguousarray(image))[None, None].float() / 255
