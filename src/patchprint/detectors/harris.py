"""Corners of many scales: Harris' response, moved to the junctions of their edges (Foerstner)."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.errors import require
from patchprint.common.types import Keypoints
from patchprint.detectors import FAINTEST, Detector, keep_inside, strongest_first
from patchprint.interop.kornia import add_shape_and_angle, to_lafs, to_tensor

SIGMA = 3.0  # scale given to a corner of the finest level: its patch then spans 36 px
WINDOW = 2.0  # sigma of the window over which gradients are gathered, in pixels of a level
MARGIN = 5  # pixels of a level
K = 0.04
MOST = 4096  # where no number is asked for


@torch.no_grad()
def find_harris(
    image: np.ndarray, max_keypoints: int | None = None, mask: np.ndarray | None = None, affine: bool = False
) -> Keypoints:
    """Corners: maxima of Harris' response in each level of a pyramid, strongest first; ``affine`` adds an elliptic shape.

    Each level is searched alone, because the response at an ideal corner grows with the scale and has no maximum over it.
    (kornia's MultiResolutionDetector does the same, but in whole pixels and without the half-pixel shift of a level.)
    """
    pixels = to_tensor(image)
    level, parts = pixels, []
    while min(level.shape[-2:]) >= 4 * MARGIN:
        xy, score = _corners(level)
        stretch = torch.tensor([image.shape[1] / level.shape[-1], image.shape[0] / level.shape[-2]])
        # Pixel u of a level has its center at (u + 0.5) * stretch - 0.5 of the image.
        parts.append((((xy + 0.5) * stretch - 0.5), SIGMA * stretch.mean().expand(len(xy)), score))
        size = [round(side / 2**0.5) for side in level.shape[-2:]]
        level = F.interpolate(level, size=size, mode="bilinear", antialias=True, align_corners=False)
    if not parts:
        return Keypoints.empty()
    xy, scale, score = (torch.cat(part) for part in zip(*parts, strict=True))
    corners = Keypoints(xy, scale, torch.zeros_like(scale), score)
    corners = strongest_first(keep_inside(corners, mask), max_keypoints or MOST)
    assert corners.score is not None
    return add_shape_and_angle(pixels, to_lafs(corners), corners.score, affine)


def _corners(level: Tensor) -> tuple[Tensor, Tensor]:
    """Maxima of Harris' response in windows of 5 x 5, moved to the junction they belong to: positions (M, 2), scores (M,).

    The maximum itself lies inside of the corner by about the width of the window. Foerstner's point, where the lines through
    all edge pixels along their edges meet, is the corner: the q with ``sum w g g^T (p - q) = 0``.
    """
    filters = require("kornia.filters", extra="eval")

    def gather(values: Tensor) -> Tensor:
        size = 2 * int(3 * WINDOW) + 1
        return filters.gaussian_blur2d(values[None, None], (size, size), (WINDOW, WINDOW))[0, 0]

    dx, dy = filters.spatial_gradient(level)[0, 0]
    rows, columns = torch.meshgrid(*(torch.arange(n, dtype=torch.float32) for n in dx.shape), indexing="ij")
    xx, xy, yy = gather(dx * dx), gather(dx * dy), gather(dy * dy)
    along_x, along_y = gather(dx * (dx * columns + dy * rows)), gather(dy * (dx * columns + dy * rows))
    determinant = xx * yy - xy * xy
    response = determinant - K * (xx + yy) ** 2

    highest = F.max_pool2d(response[None, None], 5, stride=1, padding=2)[0, 0]
    inside = torch.zeros_like(response, dtype=torch.bool)
    inside[MARGIN:-MARGIN, MARGIN:-MARGIN] = True
    y, x = torch.nonzero((response == highest) & (response > FAINTEST) & inside, as_tuple=True)
    peak = torch.stack([x, y], 1).float()
    a, b, c, u, v, d = (values[y, x] for values in (xx, xy, yy, along_x, along_y, determinant))
    junction = torch.stack([c * u - b * v, a * v - b * u], 1) / d[:, None]
    return peak + (junction - peak).clamp(-MARGIN, MARGIN), response[y, x]


detector = Detector(
    "multi-scale Harris corners (kornia)", "corners", find_harris, {"affine": {"affine": True}}, "kornia"
)
