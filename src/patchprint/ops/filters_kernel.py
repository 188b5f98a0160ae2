"""A Triton kernel for separable filters: two launches, where PyTorch needs two for each weight.

Triton comes with PyTorch's builds for GPUs.
"""

import functools
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = (8, 128)  # rows and columns of one program


@triton.jit
def _mirrored(place, last):  # type: ignore[no-untyped-def]
    return tl.abs(last - tl.abs(last - tl.abs(place)))


@triton.jit
def _correlating_kernel(  # type: ignore[no-untyped-def]
    source, weights, target, height, width, image_stride,
    TAPS: tl.constexpr, ALONG_ROWS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    image, inside = tl.program_id(2).to(tl.int64), (row < height) & (column < width)
    source += image * height * width
    value = tl.zeros([ROWS, COLUMNS], tl.float32)
    for tap in tl.static_range(TAPS):
        if ALONG_ROWS:
            place = row * width + _mirrored(column + (tap - TAPS // 2), width - 1)
        else:
            place = _mirrored(row + (tap - TAPS // 2), height - 1) * width + column
        value += tl.load(source + place, inside, 0.0) * tl.load(weights + tap)
    tl.store(target + image * image_stride + row * width + column, value, inside)


def separable(images: Tensor, along_x: Sequence[float], along_y: Sequence[float], out: Tensor | None = None) -> Tensor:
    """Do as ``filters.separable`` with images larger than the filter; the rows of each image of ``out`` are contiguous."""
    images = images.contiguous()
    between = torch.empty_like(images)
    found = torch.empty_like(images) if out is None else out
    count, height, width = images.shape
    grid = (triton.cdiv(height, _BLOCK[0]), triton.cdiv(width, _BLOCK[1]), count)
    for source, weights, target in ((images, tuple(along_x), between), (between, tuple(along_y), found)):
        _correlating_kernel[grid](
            source, _on_device(weights, images.device), target, height, width, target.stride(0),
            TAPS=len(weights), ALONG_ROWS=target is between, ROWS=_BLOCK[0], COLUMNS=_BLOCK[1],
        )  # fmt: skip
    return found


@functools.cache
def _on_device(weights: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(weights, device=device)
