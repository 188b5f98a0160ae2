"""Augment whole images on the device, as `augment` does patches: crops, mirroring and color changes per image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from patchprint.common import rng

_CROP, _FLIP, _JITTERED, _BRIGHTNESS, _CONTRAST, _SATURATION, _HUE, _GRAY = range(8)
_LUMA = (0.299, 0.587, 0.114)
# From RGB to luma and two color axes (YIQ); the hue is the angle between the two.
_TO_YIQ = (_LUMA, (0.59590059, -0.27455667, -0.32134392), (0.21153661, -0.52273617, 0.31119955))
_TO_RGB = tuple(map(tuple, np.linalg.inv(_TO_YIQ).tolist()))


@dataclass(frozen=True)
class ImageAugmentation:
    """Random resized crop of ``crop`` to all of the area, random mirroring, color jitter.

    ``colors`` is the strength of SimCLR's jitter, for 8 images of 10: brightness, contrast and saturation are multiplied by
    1 +- 0.8 of it, the hue is turned by +- 0.2 of it (a full turn is 1), in this order (SimCLR's is random). ``gray`` is the
    part of the images that lose their colors.
    """

    crop: float = 1.0
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True
    colors: float = 0.0
    gray: float = 0.0

    channels: ClassVar[int] = 3

    def warp(self, key: Tensor, extent: Tensor, point: Tensor | None = None) -> Tensor:
        """Return where each pixel is read, in half sides of the central square; ``point`` plays no part.

        Shape:
            key 0-dim, extent (P, K, 2), point (P,) -> affine maps (P, K, 2, 3).
        """
        size, center = random_crops(rng.fold_in(key, _CROP), extent, self.crop, self.crop_ratio)
        if self.flip:
            mirror = 1.0 - 2.0 * rng.integers(rng.fold_in(key, _FLIP), 2, tuple(extent.shape[:2])).float()
            size = size * torch.stack([mirror, torch.ones_like(mirror)], -1)
        return torch.cat([torch.diag_embed(size), center[..., None]], -1)

    def light(self, key: Tensor, images: Tensor, first: int = 0) -> Tensor:
        """Change the colors of images in [0, 1]; ``first`` is how many classes precede these in the global batch.

        Shape:
            (P, K, 3, S, S) -> the same.
        """
        if self.colors:
            images = self._jitter(key, images, first)
        if self.gray:
            fades = rng.uniform(rng.fold_in(key, _GRAY), tuple(images.shape[:2]), first=first) < self.gray
            images = torch.where(fades[..., None, None, None], _luma(images).expand_as(images), images)
        return images

    def _jitter(self, key: Tensor, images: Tensor, first: int) -> Tensor:
        def draw(purpose: int, low: float, high: float) -> Tensor:
            return rng.uniform(rng.fold_in(key, purpose), tuple(images.shape[:2]), low, high, first)

        def around_one(purpose: int) -> Tensor:
            limit = 0.8 * self.colors
            return draw(purpose, max(0.0, 1 - limit), 1 + limit)[..., None, None, None]

        changed = (images * around_one(_BRIGHTNESS)).clamp(0, 1)
        middle = _luma(changed).mean((-3, -2, -1), keepdim=True)
        changed = torch.lerp(middle, changed, around_one(_CONTRAST)).clamp(0, 1)
        changed = torch.lerp(_luma(changed), changed, around_one(_SATURATION)).clamp(0, 1)
        turn = draw(_HUE, -0.2 * self.colors, 0.2 * self.colors) * (2 * torch.pi)
        changed = _turn_hue(changed, turn).clamp(0, 1)
        jittered = draw(_JITTERED, 0.0, 1.0) < 0.8
        return torch.where(jittered[..., None, None, None], changed, images)


def _combine(weights: tuple[float, float, float], images: Tensor) -> Tensor:
    """Return a weighted sum of the channels; the weights stay numbers, since a CUDA graph copies nothing from the host."""
    red, green, blue = images.unbind(-3)
    return weights[0] * red + weights[1] * green + weights[2] * blue


def _luma(images: Tensor) -> Tensor:
    return _combine(_LUMA, images).unsqueeze(-3)


def _turn_hue(images: Tensor, turn: Tensor) -> Tensor:
    """Rotate colors (..., 3, S, S) around the gray axis by ``turn`` (...) in radians; the luma stays."""
    luma, first, second = (_combine(weights, images) for weights in _TO_YIQ)
    cosine, sine = torch.cos(turn)[..., None, None], torch.sin(turn)[..., None, None]
    turned = torch.stack([luma, cosine * first - sine * second, sine * first + cosine * second], -3)
    return torch.stack([_combine(weights, turned) for weights in _TO_RGB], -3)


# SEC's metric learning; SimCLR's for CIFAR-10.
CROP_AND_FLIP = ImageAugmentation(crop=0.16)
SIMCLR = ImageAugmentation(crop=0.08, colors=0.5, gray=0.2)


def random_crops(key: Tensor, extent: Tensor, smallest: float, ratios: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Draw half sides and centers of crops that cover ``smallest`` to 1 of the area, width by height within ``ratios``.

    A drawn crop that is longer than the image on one side is cut there (the usual code draws again instead).

    Shape:
        key 0-dim; extent (P, K, 2), half width and half height of what can be cropped -> (P, K, 2), (P, K, 2).
    """
    shape = (extent.shape[0], extent.shape[1])
    area = rng.uniform(rng.fold_in(key, 0), shape, smallest, 1.0) * extent.prod(-1)
    low, high = (math.log(ratio) for ratio in ratios)
    ratio = torch.exp(rng.uniform(rng.fold_in(key, 1), shape, low, high))
    size = torch.minimum(torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], -1), extent)
    return size, rng.uniform(rng.fold_in(key, 2), (*shape, 2), -1.0, 1.0) * (extent - size)
