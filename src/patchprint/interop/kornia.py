"""kornia: local affine frames (LAFs) in both directions, Harris and Hessian detectors.

kornia puts the centre of the top-left pixel at (0, 0), as we do. A LAF is a 2 x 3 matrix ``[L | xy]`` that maps the square
[-1, 1]^2 to the whole patch, so ``L = mr_size * A`` with our frame ``A`` in units of sigma and ``mr_size`` half of
``patch_scale``. The matrices agree in direction; only kornia's orientation *numbers* (``get_laf_orientation``,
``laf_from_center_scale_ori``) are measured the other way round, and they do not pass through here.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.errors import UserError
from patchprint.extras import require
from patchprint.types import Keypoints

MR_SIZE = 6.0  # kornia's default: half the side of a patch in units of sigma
FAINTEST = 1e-10  # responses below this are rounding errors on flat ground
HARRIS_SIGMA = 3.0  # scale given to a corner of the finest level: its patch then spans 36 px
HARRIS_WINDOW = 2.0  # sigma of the window over which gradients are gathered, in pixels of a level
HARRIS_MARGIN = 5  # pixels of a level
HARRIS_K = 0.04


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


@torch.no_grad()
def detect_hessian(
    image: np.ndarray, max_keypoints: int = 2000, affine: bool = False, mask: np.ndarray | None = None
) -> Keypoints:
    """Blobs: maxima over position and scale of the Hessian's determinant, strongest first.

    Args:
        image: uint8 (H, W).
        affine: estimate an elliptic shape from the second moments of the gradients.
        mask: (H, W); keypoints where it is zero are left out.
    """
    features = require("kornia.feature", extra="eval")
    if min(image.shape) < 32:  # smaller than the finest frame with its margin
        return Keypoints.empty()
    detector = features.ScaleSpaceDetector(max_keypoints, MR_SIZE, resp_module=features.BlobHessian()).eval()
    pixels = _to_tensor(image)
    lafs, scores = detector(pixels, None if mask is None else torch.from_numpy(np.asarray(mask) != 0)[None, None])
    found = scores[0] > FAINTEST  # kornia has no threshold, and fills up to num_features with zeros
    return _add_shape_and_angle(pixels, lafs[:, found], scores[0, found], affine)


@torch.no_grad()
def detect_harris(
    image: np.ndarray, max_keypoints: int = 2000, affine: bool = False, mask: np.ndarray | None = None
) -> Keypoints:
    """Corners: maxima of Harris' response in each level of a pyramid, strongest first; the arguments of `detect_hessian`.

    Each level is searched alone, because the response at an ideal corner grows with the scale and has no maximum over it.
    (kornia's MultiResolutionDetector does the same, but in whole pixels and without the half-pixel shift of a level.)
    """
    pixels = _to_tensor(image)
    level, parts = pixels, []
    while min(level.shape[-2:]) >= 4 * HARRIS_MARGIN:
        xy, score = _corners(level)
        stretch = torch.tensor([image.shape[1] / level.shape[-1], image.shape[0] / level.shape[-2]])
        # Pixel u of a level has its centre at (u + 0.5) * stretch - 0.5 of the picture.
        parts.append((((xy + 0.5) * stretch - 0.5), HARRIS_SIGMA * stretch.mean().expand(len(xy)), score))
        size = [round(side / 2**0.5) for side in level.shape[-2:]]
        level = F.interpolate(level, size=size, mode="bilinear", antialias=True, align_corners=False)
    if not parts:
        return Keypoints.empty()
    xy, scale, score = (torch.cat(part) for part in zip(*parts, strict=True))
    corners = Keypoints(xy, scale, torch.zeros_like(scale), score)
    if mask is not None:
        column, row = xy.round().long().unbind(1)
        corners = corners[torch.from_numpy(np.asarray(mask) != 0)[row, column]]
    assert corners.score is not None
    corners = corners[torch.argsort(corners.score, descending=True, stable=True)[:max_keypoints]]
    assert corners.score is not None
    return _add_shape_and_angle(pixels, to_lafs(corners), corners.score, affine)


def _corners(level: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima of Harris' response in windows of 5 x 5, moved to the junction they belong to: positions (M, 2), scores (M,).

    The maximum itself lies inside of the corner by about the width of the window. Foerstner's point, where the lines through
    all edge pixels along their edges meet, is the corner: the q with ``sum w g g^T (p - q) = 0``.
    """
    filters = require("kornia.filters", extra="eval")

    def gather(values: Tensor) -> Tensor:
        size = 2 * int(3 * HARRIS_WINDOW) + 1
        return filters.gaussian_blur2d(values[None, None], (size, size), (HARRIS_WINDOW, HARRIS_WINDOW))[0, 0]

    dx, dy = filters.spatial_gradient(level)[0, 0]
    rows, columns = torch.meshgrid(*(torch.arange(n, dtype=torch.float32) for n in dx.shape), indexing="ij")
    xx, xy, yy = gather(dx * dx), gather(dx * dy), gather(dy * dy)
    along_x, along_y = gather(dx * (dx * columns + dy * rows)), gather(dy * (dx * columns + dy * rows))
    determinant = xx * yy - xy * xy
    response = determinant - HARRIS_K * (xx + yy) ** 2

    highest = F.max_pool2d(response[None, None], 5, stride=1, padding=2)[0, 0]
    inside = torch.zeros_like(response, dtype=torch.bool)
    inside[HARRIS_MARGIN:-HARRIS_MARGIN, HARRIS_MARGIN:-HARRIS_MARGIN] = True
    y, x = torch.nonzero((response == highest) & (response > FAINTEST) & inside, as_tuple=True)
    peak = torch.stack([x, y], 1).float()
    a, b, c, u, v, d = (values[y, x] for values in (xx, xy, yy, along_x, along_y, determinant))
    junction = torch.stack([c * u - b * v, a * v - b * u], 1) / d[:, None]
    return peak + (junction - peak).clamp(-HARRIS_MARGIN, HARRIS_MARGIN), response[y, x]


def _add_shape_and_angle(pixels: Tensor, lafs: Tensor, scores: Tensor, affine: bool) -> Keypoints:
    features: Any = require("kornia.feature", extra="eval")
    if lafs.shape[1] == 0:
        return Keypoints.empty()
    if affine:
        lafs = features.LAFAffineShapeEstimator(19)(lafs, pixels)
    keypoints = from_lafs(features.LAFOrienter(19)(lafs, pixels), scores)
    # kornia's pyramid stretches x and y by factors that differ in the third digit; that is no affine shape.
    return keypoints if affine else dataclasses.replace(keypoints, affine=None)


def _to_tensor(image: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(image))[None, None].float() / 255
