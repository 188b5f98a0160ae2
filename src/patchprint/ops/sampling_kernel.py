"""Triton kernels for pyramids and patches: one launch for a level and one for all patches.

PyTorch needs tens of launches for each, which take most of the time at a few hundred keypoints. Values are those of `sampling`
up to rounding; a patch is the same alone and in a batch. Triton comes with PyTorch's builds for GPUs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_COLUMNS = 256  # of a level that one program writes
_PIXELS = 1024  # of a patch that one program writes


@triton.jit
def _across(source, line, column, width, inside):  # type: ignore[no-untyped-def]
    """32 times a line of ``source`` halved at ``column``, as ``sampling._halved_rows``."""
    start, last = 2 * column - 2, width - 1
    a = tl.load(source + line * width + tl.minimum(tl.maximum(start, 0), last), inside, 0).to(tl.float32)
    b = tl.load(source + line * width + tl.minimum(tl.maximum(start + 1, 0), last), inside, 0).to(tl.float32)
    c = tl.load(source + line * width + tl.minimum(start + 2, last), inside, 0).to(tl.float32)
    d = tl.load(source + line * width + tl.minimum(start + 3, last), inside, 0).to(tl.float32)
    e = tl.load(source + line * width + tl.minimum(start + 4, last), inside, 0).to(tl.float32)
    f = tl.load(source + line * width + tl.minimum(start + 5, last), inside, 0).to(tl.float32)
    return a + f + 5 * (b + e) + 10 * (c + d)


@triton.jit
def _halving_kernel(source, target, rounded, height, width, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside, start, last = column < width // 2, 2 * row - 2, height - 1
    outer = _across(source, tl.maximum(start, 0), column, width, inside)
    outer += _across(source, tl.minimum(start + 5, last), column, width, inside)
    middle = _across(source, tl.maximum(start + 1, 0), column, width, inside)
    middle += _across(source, tl.minimum(start + 4, last), column, width, inside)
    inner = _across(source, tl.minimum(start + 2, last), column, width, inside)
    inner += _across(source, tl.minimum(start + 3, last), column, width, inside)
    value = (outer + 5 * middle + 10 * inner) / 1024
    upwards = tl.floor(value + 0.5)
    upwards -= tl.where(
        (value + 0.5 == upwards) & (upwards % 2 == 1), 1.0, 0.0
    )  # halves to the even one, as PyTorch does
    place = row * (width // 2) + column
    tl.store(target + place, value, inside)
    tl.store(rounded + place, upwards.to(tl.uint8), inside)


@triton.jit
def _sampling_kernel(  # type: ignore[no-untyped-def]
    pixels, offset, width, height, num_levels, image, place, out,
    LEVELS: tl.constexpr, SIZE: tl.constexpr, PIXELS: tl.constexpr, ONE_IMAGE: tl.constexpr,
):  # fmt: skip
    patch = tl.program_id(0).to(tl.int64)
    number = image if ONE_IMAGE else tl.load(image + patch)
    x, y = tl.load(place + patch * 6), tl.load(place + patch * 6 + 1)
    a, b = tl.load(place + patch * 6 + 2), tl.load(place + patch * 6 + 3)
    c, d = tl.load(place + patch * 6 + 4), tl.load(place + patch * 6 + 5)
    spacing = tl.sqrt(tl.abs(a * d - b * c)) * (2.0 / SIZE)
    wanted = tl.floor(tl.log2(tl.maximum(spacing, 1e-6)) + 0.5).to(tl.int64)
    level = tl.minimum(tl.maximum(wanted, 0), tl.load(num_levels + number) - 1)
    entry = number * LEVELS + level
    start, columns, rows = tl.load(offset + entry), tl.load(width + entry), tl.load(height + entry)

    # In a level, pixels are 2**level times as large, and the outer edge of the image (-0.5) stays where it is.
    shrink = tl.exp2(-level.to(tl.float32))
    pixel = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    exists = pixel < SIZE * SIZE
    u = ((pixel % SIZE) * 2 + 1).to(tl.float32) / SIZE - 1
    v = ((pixel // SIZE) * 2 + 1).to(tl.float32) / SIZE - 1
    across = (x + 0.5) * shrink - 0.5 + a * shrink * u + b * shrink * v
    down = (y + 0.5) * shrink - 0.5 + c * shrink * u + d * shrink * v
    across = tl.minimum(tl.maximum(across, 0.0), (columns - 1).to(tl.float32))
    down = tl.minimum(tl.maximum(down, 0.0), (rows - 1).to(tl.float32))
    left, top = tl.floor(across), tl.floor(down)
    dx, dy = across - left, down - top
    corner = start + top.to(tl.int64) * columns + left.to(tl.int64)
    to_right = tl.where(left.to(tl.int64) + 1 < columns, 1, 0)
    to_below = tl.where(top.to(tl.int64) + 1 < rows, columns, 0)
    above = tl.load(pixels + corner, exists, 0).to(tl.float32) * (1 - dx)
    above += tl.load(pixels + corner + to_right, exists, 0).to(tl.float32) * dx
    below = tl.load(pixels + corner + to_below, exists, 0).to(tl.float32) * (1 - dx)
    below += tl.load(pixels + corner + to_below + to_right, exists, 0).to(tl.float32) * dx
    tl.store(out + patch * SIZE * SIZE + pixel, (above * (1 - dy) + below * dy) / 255.0, exists)


def halve(image: Tensor, rounded: Tensor) -> Tensor:
    """Halve an image: return floats for the next level, and write bytes into ``rounded``.

    Shape:
        (H, W) uint8 or float32, (H // 2, W // 2) uint8 -> (H // 2, W // 2) float32.
    """
    height, width = image.shape
    target = torch.empty(height // 2, width // 2, device=image.device)
    grid = (height // 2, triton.cdiv(width // 2, _COLUMNS))
    _halving_kernel[grid](image, target, rounded, height, width, COLUMNS=_COLUMNS)
    return target


def sample(
    pixels: Tensor, tables: tuple[Tensor, Tensor, Tensor, Tensor], image: int | Tensor, place: Tensor, size: int
) -> Tensor:
    """Do as ``sampling.sample_patches``.

    Shape:
        pixels (B,) uint8; tables: offset, width, height (I, L) and num_levels (I,) int64; image (N,) int64, or the one of all;
        place (N, 6) float32: center and frame -> (N, 1, size, size) float32 in [0, 1].
    """
    offset, width, height, num_levels = tables
    out = torch.empty(len(place), 1, size, size, device=pixels.device)
    if len(place):
        pixels_of_program = min(triton.next_power_of_2(size * size), _PIXELS)
        _sampling_kernel[(len(place), triton.cdiv(size * size, pixels_of_program))](
            pixels, offset, width, height, num_levels, image, place, out,
            LEVELS=offset.shape[1], SIZE=size, PIXELS=pixels_of_program, ONE_IMAGE=isinstance(image, int),
        )  # fmt: skip
    return out
