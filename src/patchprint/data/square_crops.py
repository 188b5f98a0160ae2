"""Squares of images in color, read between their pixels."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def central_square(image: np.ndarray, size: int) -> Tensor:
    """The largest square in the middle of an image; what is larger than ``size`` is smoothed as it shrinks.

    It is read as an `ImageStore` reads it, so that an image has the same descriptor in a store that kept its size.

    Shape:
        (H, W, 3) uint8 -> (3, size, size) float32 in [0, 1].
    """
    pixels = torch.from_numpy(image.astype(np.float32)).permute(2, 0, 1)[None] / 255
    height, width = image.shape[:2]
    shrink = min(1.0, size / min(height, width))
    if shrink < 1:
        height, width = round(height * shrink), round(width * shrink)
        pixels = F.interpolate(pixels, (height, width), mode="bilinear", antialias=True, align_corners=False)
    box = max(height, width)
    boxed = F.pad(pixels, (0, box - width, 0, box - height))
    return read_squares(boxed, torch.tensor([[height, width]]), size)[0]


def read_squares(pixels: Tensor, size: Tensor, side: int, warp: Tensor | None = None) -> Tensor:
    """Bilinear reading of images in their boxes: (B, 3, X, X), their size (B, 2), warp (..., 2, 3) -> (B, 3, side, side)."""
    u = (torch.arange(side, device=pixels.device, dtype=torch.float32) * 2 + 1) / side - 1
    grid = torch.stack([u.expand(side, side), u[:, None].expand(side, side)], -1).expand(len(pixels), -1, -1, -1)
    if warp is not None:
        affine = warp.reshape(-1, 1, 1, 2, 3)
        grid = (affine[..., :2] * grid[..., None, :]).sum(-1) + affine[..., 2]
    extent = size.flip(-1).float()[:, None, None]
    place = (extent + grid * extent.amin(-1, keepdim=True)) / 2
    place = torch.minimum(place.clamp(min=0.5), extent - 0.5)
    return F.grid_sample(pixels, place * (2 / pixels.shape[-1]) - 1, mode="bilinear", align_corners=False)
