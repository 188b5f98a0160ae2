"""Deformable convolution, against the sum that defines it, and against a plain convolution where nothing is moved."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.interop.deformable import deform_conv2d


def value_at(image: Tensor, y: float, x: float) -> float:
    """A map (H, W) between its pixels; zero beyond them."""
    total, top, left = 0.0, math.floor(y), math.floor(x)
    for row in (top, top + 1):
        for column in (left, left + 1):
            if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                total += (1 - abs(y - row)) * (1 - abs(x - column)) * float(image[row, column])
    return total


def by_definition(
    input: Tensor, offset: Tensor, weight: Tensor, padding: tuple[int, int], mask: Tensor | None
) -> Tensor:
    out = torch.zeros(len(input), len(weight), *offset.shape[2:], dtype=input.dtype)
    for n, d, y, x in torch.cartesian_prod(*(torch.arange(side) for side in out.shape)).tolist():
        for tap in range(weight.shape[2] * weight.shape[3]):
            row, column = divmod(tap, weight.shape[3])
            at_y = y - padding[0] + row + float(offset[n, 2 * tap, y, x])
            at_x = x - padding[1] + column + float(offset[n, 2 * tap + 1, y, x])
            factor = 1.0 if mask is None else float(mask[n, tap, y, x])
            for c in range(input.shape[1]):
                out[n, d, y, x] += factor * weight[d, c, row, column] * value_at(input[n, c], at_y, at_x)
    return out


@pytest.mark.parametrize("masked", [False, True])
def test_it_is_the_sum_that_defines_it(masked: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    input = torch.randn(2, 3, 6, 8, generator=draw, dtype=torch.float64)
    weight = torch.randn(4, 3, 3, 2, generator=draw, dtype=torch.float64)
    padding = (1, 2)
    height, width = 6 + 2 - 2, 8 + 4 - 1
    offset = 3 * torch.randn(2, 12, height, width, generator=draw, dtype=torch.float64)  # some lead out of the image
    mask = torch.rand(2, 6, height, width, generator=draw, dtype=torch.float64) if masked else None
    expected = by_definition(input, offset, weight, padding, mask)
    torch.testing.assert_close(deform_conv2d(input, offset, weight, None, padding, mask), expected)


def test_without_offsets_it_is_a_convolution() -> None:
    draw = torch.Generator().manual_seed(1)
    input, weight = torch.randn(1, 2, 9, 7, generator=draw), torch.randn(5, 2, 3, 3, generator=draw)
    bias = torch.randn(5, generator=draw)
    offset = torch.zeros(1, 18, 9, 7)
    torch.testing.assert_close(
        deform_conv2d(input, offset, weight, bias, (1, 1)), F.conv2d(input, weight, bias, padding=1)
    )
