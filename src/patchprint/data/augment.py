"""Augment patches and whole images on the device: one affine map each, and photometric changes of the pixels.

``warp`` says where the source reads the pixels (``PatchSource.sample``), so that images give real surroundings. Turns by 90
degrees and flips are drawn per point, the other changes per view. Everything is a pure function of a key.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.common.registry import Registry

_JOINT, _ROTATION, _CROP, _SCALE, _SHEAR, _SHIFT = range(6)
_GAMMA, _CONTRAST, _BRIGHTNESS, _NOISE, _BLUR, _JPEG, _RELIT, _CLOSER = range(6, 14)
Turns = Literal["none", "uniform", "half", "transpose"]
Flips = Literal["none", "horizontal", "vertical", "either"]


@dataclass(frozen=True)
class Augmentation:
    """Strength of each random change; ranges are sampled uniformly, zero turns a change off.

    ``turns``, for all views of a point: "uniform" 0, 90, 180 or 270 degrees; "half" nothing with probability one half, else
    90, 180 or 270; "transpose" swaps rows and columns with probability one half. ``flips``: "horizontal" or "vertical" with
    probability one half, "either" one of left-right, up-down and none; ``closer``: half of the points show less of the image,
    up to so many octaves, as patches do that others cut, while errors of place stay as large as they are in the image. Then
    for each view: ``rotation`` +- degrees; ``crop``
    the smallest area fraction and ``crop_ratio`` the smallest and largest aspect of a random resized crop; ``scale`` +-
    octaves; ``shear`` +- relative stretch along a random direction; ``shift`` +- half sides. Light: ``relit`` the part of the
    views that `change_light` shows; of the others, ``gamma`` and ``contrast`` +- octaves, ``brightness`` +- of full
    white; noise and blur (sigma in gray levels of 1 and in pixels) and JPEG (lowest quality) are drawn up to their limit
    for half of the patches.
    """

    turns: Turns = "none"
    flips: Flips = "none"
    closer: float = 0.0
    rotation: float = 0.0
    crop: float = 1.0
    crop_ratio: tuple[float, float] = (1.0, 1.0)
    scale: float = 0.0
    shear: float = 0.0
    shift: float = 0.0
    gamma: float = 0.0
    contrast: float = 0.0
    brightness: float = 0.0
    noise: float = 0.0
    blur: float = 0.0
    jpeg: int = 100
    relit: float = 0.0

    channels: ClassVar[int] = 1

    def warp(self, key: Tensor, extent: Tensor, point: Tensor | None = None) -> Tensor:
        """Return where in the plain patch each pixel is read; of ``extent`` only the shape matters.

        Shape:
            key 0-dim, extent (P, K, 2), point (P,) int64 below P: rows with equal ones are of one point and turned alike;
            without it each row is a point of its own -> affine maps (P, K, 2, 3).
        """
        shape = (extent.shape[0], extent.shape[1])
        identity = torch.eye(2, device=key.device)
        linear = identity.expand(*shape, 2, 2)
        offset = torch.zeros(*shape, 2, device=key.device)
        if self.shift:
            offset = _draw(key, _SHIFT, (*shape, 2), self.shift)
        if self.rotation:
            linear = _product(linear, _rotations(_draw(key, _ROTATION, shape, math.radians(self.rotation))))
        if self.shear:
            axis = _rotations(rng.uniform(rng.fold_in(key, _SHEAR), shape, 0.0, math.pi))
            stretch = torch.exp(_draw(rng.fold_in(key, _SHEAR), 1, shape, math.log1p(self.shear)))
            diagonal = torch.diag_embed(torch.stack([stretch, 1.0 / stretch], -1))
            linear = _product(_product(_product(linear, axis), diagonal), axis.mT)
        if self.scale:
            linear = linear * torch.exp2(_draw(key, _SCALE, shape, self.scale))[..., None, None]
        if self.crop < 1.0 or self.crop_ratio != (1.0, 1.0):
            size, center = random_crops(rng.fold_in(key, _CROP), torch.ones_like(extent), self.crop, self.crop_ratio)
            offset = offset + (linear * center[..., None, :]).sum(-1)
            linear = linear * size[..., None, :]
        joint = self._joint(rng.fold_in(key, _JOINT), shape[0])
        if point is not None:
            joint = joint[point]
        return torch.cat([_product(linear, joint[:, None]), offset[..., None]], -1)

    def light(self, key: Tensor, patches: Tensor, first: int = 0) -> Tensor:
        """Change light, lens and camera; ``first`` is how many points precede these in the global batch.

        Shape:
            (P, K, 1, S, S) in [0, 1] -> the same.
        """
        shape = patches.shape[:2]
        count, before = (shape[0] * shape[1],), first * shape[1]
        out = patches.flatten(0, 1)
        if self.blur:
            out = blur(out, _half_of_the_time(rng.fold_in(key, _BLUR), count, before) * self.blur)
        if self.gamma:
            out = out.clamp(min=1e-4) ** torch.exp2(_draw(key, _GAMMA, count, self.gamma, before))[:, None, None, None]
        if self.contrast or self.brightness:
            contrast = torch.exp2(_draw(key, _CONTRAST, count, self.contrast, before))
            out = relight(out, contrast, _draw(key, _BRIGHTNESS, count, self.brightness, before))
        if self.noise:
            sigma = _half_of_the_time(rng.fold_in(key, _NOISE), count, before) * self.noise
            noise = rng.normal(rng.fold_in(rng.fold_in(key, _NOISE), 2), tuple(out.shape), before)
            out = (out + noise * sigma[:, None, None, None]).clamp(0.0, 1.0)
        if self.jpeg < 100:
            strength = _half_of_the_time(rng.fold_in(key, _JPEG), count, before)
            out = jpeg(out, 100.0 - strength * (100.0 - self.jpeg))
        if self.relit:
            chosen = rng.uniform(rng.fold_in(key, _RELIT), count, first=before) < self.relit
            relit = change_light(patches.flatten(0, 1), rng.fold_in(rng.fold_in(key, _RELIT), 1), first=before)
            out = torch.where(chosen[:, None, None, None], relit, out)
        return out.reshape(patches.shape)

    def _joint(self, key: Tensor, num_points: int) -> Tensor:
        """Turn, flip and size of each point, (P, 2, 2)."""
        shape = (num_points,)
        quarter = torch.zeros(shape, dtype=torch.int64, device=key.device)
        coin = rng.integers(rng.fold_in(key, 0), 2, shape)
        if self.turns == "uniform":
            quarter = rng.integers(rng.fold_in(key, 1), 4, shape)
        elif self.turns == "half":
            quarter = coin * (1 + rng.integers(rng.fold_in(key, 1), 3, shape))
        # Cosine and sine of multiples of 90 degrees, exactly.
        cosine, sine = ((1 - (quarter + shift) % 4) * ((quarter + shift) % 2 == 0) for shift in (0, 3))
        turn = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2).float()
        if self.turns == "transpose":
            identity = torch.eye(2, device=key.device)
            turn = torch.where(coin[:, None, None] == 1, identity.flip(0), identity)
        # Which outcome of the draw mirrors left-right and up-down; -1 never comes up.
        across, upright = {"none": (-1, -1), "horizontal": (1, -1), "vertical": (-1, 1), "either": (1, 2)}[self.flips]
        choice = rng.integers(rng.fold_in(key, 2), 3 if self.flips == "either" else 2, shape)
        mirror = torch.stack([choice == across, choice == upright], -1)
        turn = turn * (1.0 - 2.0 * mirror.float())[:, None, :]
        if self.closer:
            octaves = self.closer * _half_of_the_time(rng.fold_in(key, _CLOSER), shape, 0)
            turn = turn * torch.exp2(-octaves)[:, None, None]
        return turn


# Keys of what is drawn for an image; those of patches have the same numbers, but never meet them.
_IMAGE_CROP, _IMAGE_FLIP, _IMAGE_JITTERED, _IMAGE_BRIGHTNESS = range(4)
_IMAGE_CONTRAST, _IMAGE_SATURATION, _IMAGE_HUE, _IMAGE_GRAY = range(4, 8)
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
        size, center = random_crops(rng.fold_in(key, _IMAGE_CROP), extent, self.crop, self.crop_ratio)
        if self.flip:
            mirror = 1.0 - 2.0 * rng.integers(rng.fold_in(key, _IMAGE_FLIP), 2, tuple(extent.shape[:2])).float()
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
            fades = rng.uniform(rng.fold_in(key, _IMAGE_GRAY), tuple(images.shape[:2]), first=first) < self.gray
            images = torch.where(fades[..., None, None, None], _luma(images).expand_as(images), images)
        return images

    def _jitter(self, key: Tensor, images: Tensor, first: int) -> Tensor:
        def draw(purpose: int, low: float, high: float) -> Tensor:
            return rng.uniform(rng.fold_in(key, purpose), tuple(images.shape[:2]), low, high, first)

        def around_one(purpose: int) -> Tensor:
            limit = 0.8 * self.colors
            return draw(purpose, max(0.0, 1 - limit), 1 + limit)[..., None, None, None]

        changed = (images * around_one(_IMAGE_BRIGHTNESS)).clamp(0, 1)
        middle = _luma(changed).mean((-3, -2, -1), keepdim=True)
        changed = torch.lerp(middle, changed, around_one(_IMAGE_CONTRAST)).clamp(0, 1)
        changed = torch.lerp(_luma(changed), changed, around_one(_IMAGE_SATURATION)).clamp(0, 1)
        turn = draw(_IMAGE_HUE, -0.2 * self.colors, 0.2 * self.colors) * (2 * torch.pi)
        changed = _turn_hue(changed, turn).clamp(0, 1)
        jittered = draw(_IMAGE_JITTERED, 0.0, 1.0) < 0.8
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


_FLIPROT = Augmentation(turns="uniform", flips="horizontal")
_HARDNET = Augmentation(turns="transpose", flips="horizontal")
_MILD = dataclasses.replace(_FLIPROT, rotation=8.0, scale=0.2, shear=0.1, shift=0.03)
_SMALL: dict[str, Any] = {
    "rotation": 5.0,
    "crop": 0.9,
    "crop_ratio": (0.9, 1.1),
}  # HardNet's and SDGMNet's, for each view
_STRONG = dataclasses.replace(_FLIPROT, rotation=12.0, scale=0.3, shear=0.15, shift=0.06)
_STRONG = dataclasses.replace(_STRONG, gamma=0.6, contrast=0.6, brightness=0.12, noise=0.04, blur=1.2, jpeg=20)
_WIDE = dataclasses.replace(_STRONG, rotation=20.0, scale=0.45, shear=0.25, shift=0.08)

# method-facts sections 1 to 7. SDGMNet's rotation fills with black; here the surroundings or the border are read.
# No augmentation is on record for TFeat. "photos", "strong", "wide", "wider", "relit", "closer" and "closer-relit" are ours,
# for images, where surroundings are real.
# "wide" is for keypoints whose scale and angle are off by as much as a detector's are, "wider" for the worst of them,
# "relit" is "wide" with half of the views in very different light, "closer" shows half of the points in patches down to
# 10 sigma where the others have 48 (HPatches' size), "closer-relit" does both.
# "crop-flip" and "simclr" are for whole images.
PRESETS: Registry[Augmentation | ImageAugmentation] = Registry(
    "augmentation",
    {
        "none": Augmentation(),
        "l2net": _FLIPROT,
        "hardnet": _HARDNET,
        "hardnet2018": dataclasses.replace(_HARDNET, **_SMALL),
        "hynet": Augmentation(turns="half", flips="vertical"),
        "sdgmnet": Augmentation(turns="uniform", flips="either", **_SMALL),
        "cdf": _FLIPROT,
        "doap": _FLIPROT,
        "tfeat": Augmentation(),
        "photos": dataclasses.replace(_MILD, gamma=0.4, contrast=0.4, brightness=0.08, noise=0.02, blur=1.0, jpeg=40),
        "strong": _STRONG,
        "wide": _WIDE,
        "wider": dataclasses.replace(_STRONG, rotation=30.0, scale=0.65, shear=0.3, shift=0.1),
        "relit": dataclasses.replace(_WIDE, relit=0.5),
        "closer": dataclasses.replace(_WIDE, closer=2.25),
        "closer-relit": dataclasses.replace(_WIDE, closer=2.25, relit=0.5),
        "crop-flip": ImageAugmentation(crop=0.16),  # SEC's metric learning
        "simclr": ImageAugmentation(crop=0.08, colors=0.5, gray=0.2),  # for CIFAR-10
    },
)


def create(preset: str, channels: int = 1) -> Augmentation | ImageAugmentation:
    """Create the augmentation of a paper, or one of ours ("photos", "closer-relit" and those between)."""
    chosen = PRESETS[preset]
    if chosen.channels != channels and preset != "none":
        kinds = {1: "gray patches", 3: "whole images"}
        fitting = ", ".join(name for name, each in PRESETS.items() if each.channels == channels)
        raise UserError(
            f"augmentation {preset!r} is for {kinds[chosen.channels]}; for {kinds[channels]} there is {fitting}"
        )
    return chosen


def _draw(key: Tensor, purpose: int, shape: tuple[int, ...], limit: float, first: int = 0) -> Tensor:
    return rng.uniform(rng.fold_in(key, purpose), shape, -limit, limit, first)


def _half_of_the_time(key: Tensor, shape: tuple[int, ...], first: int) -> Tensor:
    """Zero with probability one half, else uniform in [0, 1)."""
    return rng.uniform(rng.fold_in(key, 0), shape, -1.0, 1.0, first).clamp(min=0.0)


def _rotations(angle: Tensor) -> Tensor:
    cosine, sine = torch.cos(angle), torch.sin(angle)
    return torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b for (..., 2, 2), as sums: a matrix product would lose digits under autocast."""
    return (a[..., :, :, None] * b[..., None, :, :]).sum(-2)


_BLUR_RADIUS = 3
# Luminance table of the JPEG standard (Annex K), rows by vertical frequency.
_LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_LUMINANCE_ROWS = tuple(sum(value << (7 * column) for column, value in enumerate(row)) for row in _LUMINANCE)


def relight(patches: Tensor, contrast: Tensor, brightness: Tensor) -> Tensor:
    """Scale contrast (N,) around the mean of each patch, add an offset (N,), and clip."""
    mean = patches.mean((-2, -1), keepdim=True)
    changed = (patches - mean) * contrast[:, None, None, None] + mean + brightness[:, None, None, None]
    return changed.clamp(0.0, 1.0)


def blur(patches: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur with sigma (N,) in pixels, up to about 1.5; zero leaves a patch as it is."""
    tap = torch.arange(-_BLUR_RADIUS, _BLUR_RADIUS + 1, device=patches.device)
    weight = torch.exp(-0.5 * (tap / sigma.clamp(min=1e-2)[:, None]) ** 2)
    weight = weight / weight.sum(1, keepdim=True)
    size, r = patches.shape[-1], _BLUR_RADIUS
    padded = F.pad(patches, (r, r, r, r), mode="replicate")
    rows = torch.zeros_like(padded[..., :size, :])
    for k in range(2 * r + 1):
        rows = rows + padded[..., k : k + size, :] * weight[:, k, None, None, None]
    out = torch.zeros_like(patches)
    for k in range(2 * r + 1):
        out = out + rows[..., k : k + size] * weight[:, k, None, None, None]
    return out


def jpeg(patches: Tensor, quality: Tensor) -> Tensor:
    """Simulate JPEG artifacts: quantize 8x8 DCT coefficients as ``quality`` (N,) in (1, 100] does."""
    count, _, height, width = patches.shape
    below, right = -height % 8, -width % 8
    padded = F.pad(patches, (0, right, 0, below), mode="replicate") if below or right else patches
    rows, columns = (height + below) // 8, (width + right) // 8
    blocks = padded.reshape(count, rows, 8, columns, 8).transpose(2, 3) * 255.0 - 128.0
    # Orthonormal DCT-II of 8 values, (8, 8).
    order = torch.arange(8, device=patches.device).float()
    basis = torch.cos(torch.pi / 8.0 * (order + 0.5) * order[:, None]) * 0.5
    basis = torch.where(order[:, None] == 0, basis / 2.0**0.5, basis)
    percent = torch.where(quality < 50, 5000.0 / quality, 200.0 - 2.0 * quality)
    # Unpacked from single numbers, since a CUDA graph cannot copy a list from the host.
    shift = 7 * torch.arange(8, device=patches.device)
    packed = [torch.full((8,), number, dtype=torch.int64, device=patches.device) >> shift for number in _LUMINANCE_ROWS]
    table = (torch.stack(packed) & 127).float()
    step = torch.floor(table * percent[:, None, None] / 100.0 + 0.5).clamp(min=1.0)[:, None, None]
    rounded = torch.round(_both_sides(blocks, basis) / step) * step
    restored = (_both_sides(rounded, basis.T) + 128.0) / 255.0
    restored = restored.transpose(2, 3).reshape(count, 1, rows * 8, columns * 8)
    return restored[..., :height, :width].clamp(0.0, 1.0)


def _both_sides(blocks: Tensor, basis: Tensor) -> Tensor:
    """basis @ block @ basis^T in float32 whatever autocast says: rounding would show its coarser digits."""
    with torch.autocast(device_type=blocks.device.type, enabled=False):
        return basis @ blocks.float() @ basis.T


_FIELD, _EDGE, _SHADOW, _REGIONS, _HAZE, _CURVES, _NIGHT, _LAMP, _SMEAR, _GRAIN, _PACKED = range(20, 31)
_WAVES = 4  # of a random field
_KNOTS = 6  # of a tone curve
_TAPS = 4  # pixels to each side that a blur reaches


def change_light(images: Tensor, key: Tensor, strength: float | Tensor = 1.0, first: int = 0) -> Tensor:
    """Show images or patches in other light and by another camera, each change with its own probability.

    Of the scene change: fields of light, shadows, the brightness of whole regions (up to its sign, as by seasons and between
    sensors), haze, night with lamps. Of the camera: gamma, other tone curves, inversion, contrast, focus, motion, noise, JPEG.

    Args:
        strength: multiplies probabilities and strengths, of all images or of each (N,); 0 changes nothing but the digits.
        first: how many images precede these in the global batch.

    Shape:
        (N, 1, H, W) in [0, 1] -> the same.
    """
    draw = _Draw(key, len(images), first)
    if isinstance(strength, Tensor):
        strength = strength[:, None, None, None]
    values = _light_scene(images, draw, strength)
    values = _expose(values, draw, strength)
    values = _smear(values, draw, strength)
    usual, strong = draw(_GRAIN, 0, 0.015), draw(_GRAIN, 0.015, 0.06, 1)
    deviation = torch.where(draw.chance(_GRAIN, 0.3), strong, usual) * strength
    noise = rng.normal(rng.fold_in(rng.fold_in(key, _GRAIN), 9), tuple(values.shape), first)
    values = (values + noise * deviation).clamp(0.0, 1.0)
    return jpeg(values, 100.0 - (strength * draw(_PACKED, 5.0, 85.0)).flatten())


@dataclass(frozen=True, eq=False)
class _Draw:
    """Random numbers of each image, (N, 1, 1, 1), by purpose and number."""

    key: Tensor
    count: int
    first: int

    def __call__(self, purpose: int, low: float, high: float, number: int = 0) -> Tensor:
        key = rng.fold_in(rng.fold_in(self.key, purpose), number)
        return rng.uniform(key, (self.count, 1, 1, 1), low, high, self.first)

    def chance(self, purpose: int, probability: float | Tensor, number: int = 0) -> Tensor:
        return self(purpose, 0.0, 1.0, 1000 + number) < probability

    def field(self, like: Tensor, number: int) -> Tensor:
        """Draw smooth random numbers of unit variance for each pixel, (N, 1, H, W), as a sum of waves."""
        x, y = _coordinates(like)
        total = torch.zeros((), device=like.device)
        for wave in range(_WAVES):
            place = 10 * number + wave
            along, length = self(_FIELD, 0, 2 * math.pi, 3 * place), self(_FIELD, 0.5, 4.0, 3 * place + 1)
            phase = self(_FIELD, 0, 2 * math.pi, 3 * place + 2)
            total = total + torch.cos(length * (along.cos() * x + along.sin() * y) + phase)
        return total * (2 / _WAVES) ** 0.5


def _coordinates(like: Tensor) -> tuple[Tensor, Tensor]:
    """Columns (1, W) and rows (H, 1) of pixels; the shorter side goes from -1 to 1."""
    height, width = like.shape[-2:]
    half = min(height, width) / 2
    column, row = torch.arange(width, device=like.device), torch.arange(height, device=like.device)
    return (column - (width - 1) / 2)[None] / half, (row - (height - 1) / 2)[:, None] / half


def _light_scene(values: Tensor, draw: _Draw, strength: float | Tensor) -> Tensor:
    x, y = _coordinates(values)
    field = torch.exp(0.6 * strength * draw.field(values, 0))
    values = torch.where(draw.chance(_FIELD, 0.5 * strength), values * field, values)
    for number in (0, 1):
        along = draw(_EDGE, 0, 2 * math.pi, 3 * number)
        edge = along.cos() * (x - draw(_EDGE, -1, 1, 3 * number + 1)) + along.sin() * (
            y - draw(_EDGE, -1, 1, 3 * number + 2)
        )
        depth = torch.where(draw.chance(_EDGE, 0.5, number), 4 * edge, draw.field(values, 1 + number))
        share = torch.sigmoid(depth * torch.exp(draw(_SHADOW, -1, 3, 2 * number)))
        shadow = values * (1 - share * draw(_SHADOW, 0.3, 0.75, 2 * number + 1))
        values = torch.where(draw.chance(_SHADOW, (0.35, 0.2)[number] * strength, number), shadow, values)
    cells = max(1, min(values.shape[-2:]) // 8)
    coarse = F.avg_pool2d(values, cells, cells, ceil_mode=True, count_include_pad=False)
    regions = F.interpolate(coarse, values.shape[-2:], mode="bilinear", align_corners=False)
    mean = values.mean((-2, -1), keepdim=True)
    detail = (values - regions) * torch.exp(0.5 * draw.field(values, 3))
    other = mean + (regions - mean) * draw(_REGIONS, -0.6, 1.3) + detail
    values = torch.where(draw.chance(_REGIONS, 0.2 * strength), other, values)
    haze = (draw(_HAZE, 0.2, 0.7) * (1 + 0.4 * draw.field(values, 4))).clamp(0, 0.85)
    hazy = values * (1 - haze) + draw(_HAZE, 0.6, 1.0, 1) * haze
    values = torch.where(draw.chance(_HAZE, 0.2 * strength), hazy, values)
    values = values.clamp(1e-4, 1.5) ** torch.exp(draw(_GAMMA, -0.8, 0.8) * strength)
    night = values ** draw(_NIGHT, 1, 2) * draw(_NIGHT, 0.15, 0.5, 1)
    for number in range(3):
        distance = (x - draw(_LAMP, -1.2, 1.2, 4 * number)) ** 2 + (y - draw(_LAMP, -1.2, 1.2, 4 * number + 1)) ** 2
        light = draw(_LAMP, 1, 5, 4 * number + 2) * draw.chance(_LAMP, 0.5, number)
        night = night * (1 + light * torch.exp(-0.5 * distance / draw(_LAMP, 0.06, 0.6, 4 * number + 3) ** 2))
    return torch.where(draw.chance(_NIGHT, 0.2 * strength), night, values)


def _expose(values: Tensor, draw: _Draw, strength: float | Tensor) -> Tensor:
    """Inversion, tone curves, contrast and brightness."""
    values = torch.where(draw.chance(_CURVES, 0.06 * strength, 0), values.amax((-2, -1), keepdim=True) - values, values)
    knots = torch.cat([draw(_CURVES, 0, 1, 2 + number) for number in range(_KNOTS)], 1).flatten(1)
    # One of three curves is not monotone, as between sensors.
    knots = torch.where(draw.chance(_CURVES, 0.7, 1)[:, 0, 0], knots.sort(1).values, knots)
    position = values.clamp(0, 1) * (_KNOTS - 1)
    below = position.floor().clamp(max=_KNOTS - 2)
    low, high = (knots.gather(1, (below.long() + step).flatten(1)).view_as(values) for step in (0, 1))
    values = torch.where(draw.chance(_CURVES, 0.15 * strength, 2), torch.lerp(low, high, position - below), values)
    contrast = torch.exp(draw(_CONTRAST, -0.8, 0.4) * strength)
    mean = values.mean((-2, -1), keepdim=True)
    return (values - mean) * contrast + mean + draw(_BRIGHTNESS, -0.15, 0.15) * strength


def _smear(values: Tensor, draw: _Draw, strength: float | Tensor) -> Tensor:
    """Blur some images as out of focus, others as by a motion."""
    moved = draw.chance(_SMEAR, 0.08 * strength, 1)
    blurred = draw.chance(_SMEAR, 0.3 * strength, 0)
    long = torch.where(moved, draw(_SMEAR, 0.8, 2.0), torch.where(blurred, draw(_SMEAR, 0.4, 1.6, 1), 0.05))
    short = torch.where(moved, 0.3, long)
    angle = draw(_SMEAR, 0, math.pi, 2)
    tap = torch.arange(-_TAPS, _TAPS + 1, device=values.device)
    x, y = tap[None], tap[:, None]
    along, across = angle.cos() * x + angle.sin() * y, angle.cos() * y - angle.sin() * x
    kernels = torch.exp(-0.5 * ((along / long) ** 2 + (across / short) ** 2))
    kernels = kernels / kernels.sum((-2, -1), keepdim=True)
    padded = F.pad(values, (_TAPS,) * 4, mode="replicate").transpose(0, 1)
    return F.conv2d(padded, kernels, groups=len(values)).transpose(0, 1)
