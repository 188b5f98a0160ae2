"""Deformable convolution, in place of torchvision's where that does not load beside torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    padding: tuple[int, int] = (0, 0),
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution whose taps are each moved by an offset that differs from pixel to pixel (Dai et al. 2017).

    Names and layout are torchvision's; stride and dilation are one, and all channels share their offsets. Between pixels
    values are interpolated, and beyond the border they are zero.

    Shape:
        input (N, C, H, W), offset (N, 2 * k * l, H', W') with y before x for each tap, weight (D, C, k, l), bias (D,),
        mask (N, k * l, H', W'), a factor of each tap -> (N, D, H', W')
    """
    (count, channels, height, width), (rows, columns) = input.shape, weight.shape[2:]
    out_height, out_width = offset.shape[2:]
    y = torch.arange(rows)[:, None, None, None] + torch.arange(out_height)[:, None] - padding[0]
    x = torch.arange(columns)[:, None, None] + torch.arange(out_width) - padding[1]
    moved = offset.reshape(count, rows, columns, 2, out_height, out_width)
    # What grid_sample calls -1 and 1 are the centers of the first and the last pixel.
    at_x = (x.to(input) + moved[:, :, :, 1]) * (2 / max(width - 1, 1)) - 1
    at_y = (y.to(input) + moved[:, :, :, 0]) * (2 / max(height - 1, 1)) - 1
    grid = torch.stack([at_x, at_y], -1).reshape(count, -1, out_width, 2)
    taps = F.grid_sample(input, grid, padding_mode="zeros", align_corners=True)
    taps = taps.reshape(count, channels, rows * columns, out_height, out_width)
    if mask is not None:
        taps = taps * mask[:, None]
    out = torch.einsum("nckyx,dck->ndyx", taps, weight.flatten(2))
    return out if bias is None else out + bias[:, None, None]
