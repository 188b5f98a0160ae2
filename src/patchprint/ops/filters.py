"""Filters of gray images on any device: separable filters, resizing, the highest value around each pixel.

On a CPU, and without a gradient, OpenCV computes them several times faster than PyTorch; the results are equal up to rounding.
Images are mirrored at their outermost pixels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.devices import supports_triton
from patchprint.common.errors import require

DIFFERENCE = (-0.5, 0.0, 0.5)
SECOND_DIFFERENCE = (1.0, -2.0, 1.0)
SAME = (1.0,)
ACROSS = (3 / 16, 10 / 16, 3 / 16)  # what Scharr blurs across a difference, so that it responds alike in all directions
ACROSS_SECOND = (1 / 12, 10 / 12, 1 / 12)
_MOST_ROWS = 16384  # that OpenCV interpolates at once


def separable(images: Tensor, along_x: Sequence[float], along_y: Sequence[float], out: Tensor | None = None) -> Tensor:
    """Correlate with weights along rows and along columns, odd in number, into ``out`` where it is given.

    Shape:
        (N, H, W) -> (N, H, W) float32.
    """
    if _is_for_opencv(images):
        cv2, x, y = _opencv(), _array(tuple(along_x)), _array(tuple(along_y))

        def work(image: Any, target: Any) -> None:
            cv2.sepFilter2D(image, -1, x, y, target, borderType=cv2.BORDER_REFLECT_101)

        return _each(images, work, out=out)
    if (
        supports_triton(images.device)
        and not _learns(images)
        and max(len(along_x), len(along_y)) < min(images.shape[1:])
    ):
        from patchprint.ops import filters_kernel

        return filters_kernel.separable(images, along_x, along_y, out)
    values = images[:, None]
    for weights, place in ((along_x, 3), (along_y, 2)):
        if len(weights) > 1:
            values = _along(values, weights, place)
    return values[:, 0] if out is None else out.copy_(values[:, 0])


def blur(images: Tensor, sigma: float, out: Tensor | None = None) -> Tensor:
    """Blur with a Gaussian of three sigma to each side, (N, H, W) -> (N, H, W) float32, into ``out`` where it is given."""
    return separable(images, gaussian(sigma), gaussian(sigma), out)


def resize(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize to (H, W) with bilinear interpolation, without a blur: half the size is the mean of four pixels."""
    if _is_for_opencv(images):
        cv2 = _opencv()
        return _each(
            images, lambda image, out: cv2.resize(image, size[::-1], out, interpolation=cv2.INTER_LINEAR), size
        )
    return F.interpolate(images[:, None], size, mode="bilinear", align_corners=False)[:, 0]


def shrink(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Shrink to (H, W); a pixel is the mean of the area that it covers: (N, H, W) -> (N, h, w) float32."""
    if _is_for_opencv(images):
        cv2 = _opencv()
        return _each(images, lambda image, out: cv2.resize(image, size[::-1], out, interpolation=cv2.INTER_AREA), size)
    rows, columns = (_shares(*each, images.device) for each in zip(images.shape[1:], size, strict=True))
    return rows @ images @ columns.T


def _shares(length: int, shorter: int, device: torch.device) -> Tensor:
    """Return the share of each of ``length`` pixels in each of ``shorter``: (shorter, length)."""
    ends = torch.arange(shorter + 1, dtype=torch.float64, device=device) * (length / shorter)
    pixel = torch.arange(length, dtype=torch.float64, device=device)
    covered = torch.minimum(ends[1:, None], pixel + 1) - torch.maximum(ends[:-1, None], pixel)
    return (covered.clamp(min=0) * (shorter / length)).float()


def highest_near(images: Tensor, radius: int) -> Tensor:
    """Return the highest value in a disc around each pixel, (N, H, W) -> (N, H, W) without a gradient."""
    images = images.detach()
    if _is_for_opencv(images):
        cv2 = _opencv()
        disc = np.zeros((2 * radius + 1, 2 * radius + 1), np.uint8)
        for down, across in _widths(radius):
            disc[radius - down : radius + down + 1, radius - across : radius + across + 1] = 1
        return _each(images, lambda image, out: cv2.dilate(image, disc, out))
    return functools.reduce(
        torch.maximum,
        (
            F.max_pool2d(images[:, None], (2 * down + 1, 2 * across + 1), 1, (down, across))[:, 0]
            for down, across in _widths(radius)
        ),
    )


def log_(values: Tensor) -> Tensor:
    """Take the natural logarithm in place."""
    rows = values.flatten(1) if values.ndim > 1 else values[None]
    if not _is_for_opencv(values) or rows.data_ptr() != values.data_ptr():
        return values.log_()
    cv2 = _opencv()
    array = rows.numpy()
    cv2.log(array, array)
    return values


def read_places(image: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Interpolate an image (H, W) bilinearly at places (N, M), mirrored at its outermost pixels: (N, M) float32."""
    if _is_for_opencv(image):
        cv2 = _opencv()
        source, rows = image.contiguous().numpy(), _MOST_ROWS
        places = zip(x.split(rows), y.split(rows), strict=True)
        found = [
            cv2.remap(source, *(each.numpy() for each in part), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
            for part in places
        ]
        return torch.from_numpy(np.concatenate(found))
    height, width = image.shape
    x, y = (_mirrored_place(place, size - 1) for place, size in ((x, width), (y, height)))
    left, top = x.floor().clamp(max=max(0, width - 2)), y.floor().clamp(max=max(0, height - 2))
    dx, dy, first, values = x - left, y - top, top.long() * width + left.long(), image.flatten()
    above = torch.lerp(values[first], values[first + 1], dx)
    return torch.lerp(above, torch.lerp(values[first + width], values[first + width + 1], dx), dy)


def _mirrored_place(place: Tensor, last: int) -> Tensor:
    place = place.abs()
    return torch.minimum(place, 2 * last - place).clamp(0, last)


@functools.cache
def gaussian(sigma: float) -> tuple[float, ...]:
    """Return the weights of a Gaussian of three sigma to each side."""
    radius = math.ceil(3 * sigma)
    weights = [math.exp(-0.5 * (place / sigma) ** 2) for place in range(-radius, radius + 1)]
    return tuple(weight / sum(weights) for weight in weights)


def _widths(radius: int) -> list[tuple[int, int]]:
    """Rectangles that together are the disc of ``radius`` and half a pixel: rows and columns from its center."""
    return [(down, math.floor(math.sqrt((radius + 0.5) ** 2 - down**2))) for down in range(radius + 1)]


def _is_for_opencv(images: Tensor) -> bool:
    return images.device.type == "cpu" and not _learns(images)


def _learns(images: Tensor) -> bool:
    return images.requires_grad and torch.is_grad_enabled()


@functools.cache
def _opencv() -> Any:
    return require("cv2", extra="images")


@functools.cache
def _array(weights: tuple[float, ...]) -> np.ndarray:
    return np.array(weights, np.float32)


def _each(
    images: Tensor,
    work: Callable[[Any, Any], object],
    size: tuple[int, int] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Let OpenCV write what becomes of each image, (H, W) unless ``size`` is another."""
    found = torch.empty(len(images), *(size or images.shape[1:])) if out is None else out
    for image, target in zip(images.detach().contiguous().numpy(), found.numpy(), strict=True):
        work(image, target)
    return found


def _along(values: Tensor, weights: Sequence[float], place: int) -> Tensor:
    """Correlate (N, 1, H, W) along a dimension, as a sum of slices: a convolution may round to the digits of TF32."""
    radius, length = len(weights) // 2, values.shape[place]
    padding = (radius, radius, 0, 0) if place == 3 else (0, 0, radius, radius)
    padded = _mirrored(values, padding, radius, place)
    total = weights[0] * padded.narrow(place, 0, length)
    for start, weight in enumerate(weights[1:], 1):
        if weight:
            total = torch.add(total, padded.narrow(place, start, length), alpha=weight)
    return total


def _mirrored(values: Tensor, padding: tuple[int, ...], radius: int, place: int) -> Tensor:
    if radius < values.shape[place]:
        return F.pad(values, padding, mode="reflect")
    last = max(1, values.shape[place] - 1)  # mirrored more than once
    where = torch.arange(-radius, values.shape[place] + radius, device=values.device).remainder(2 * last)
    return values.index_select(place, torch.minimum(where, 2 * last - where).clamp(max=values.shape[place] - 1))
