"""One image in, keypoints with descriptors out."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common.errors import UserError
from patchprint.detectors import MAX_KEYPOINTS, detect
from patchprint.features.model import DEFAULT_MODEL, ModelLike, load
from patchprint.interop.image_files import ImageLike, limit, local_path, read_gray, turned_by_exif
from patchprint.networks.engines import AUTO
from patchprint.types import Features, Keypoints, KeypointsLike

SMALLEST = 32  # pixels along the longer side of an image that was made smaller


def extract(
    image: ImageLike,
    model: ModelLike = DEFAULT_MODEL,
    keypoints: KeypointsLike | None = None,
    mask: ImageLike | None = None,
    max_keypoints: int | None = MAX_KEYPOINTS,
    upright: bool = False,
    detector: str = "dog",
    spread: bool = True,
    exif: bool | None = None,
    max_size: int | None = None,
    device: str | torch.device = "cpu",
    engine: str = AUTO,
) -> Features:
    """Detect and describe the keypoints of one image.

    Args:
        image: a file, a URL of object storage, or an array (H, W) or (H, W, 3) in RGB; uint8, uint16, or float in [0, 1].
        model: the name of shipped weights or of a baseline (sift, rootsift, pixels), a weight file, or a loaded model.
        keypoints: describe these, all of them and in this order, instead of detecting: Keypoints or a list of
            ``cv2.KeyPoint``; none may lie outside of the image.
        mask: a file or an array (H, W), keypoints where it is zero are not detected; not used with given ``keypoints``.
        upright: ignore the angles. Better where the camera was always held level, hopeless where it was not.
        spread: give every part of the image its share of the keypoints; without it the strongest are kept.
        exif: turn the image as its EXIF orientation says, as ``cv2.imread`` does (default: pixels as they are stored, as COLMAP
            has them). Must be given with ``keypoints`` of a file whose EXIF orientation is not the usual one, since it decides
            where they lie.
        max_size: shrink an image whose longer side has more pixels than this. Keypoints stay in the coordinates of the image.
        device: where a model given by name runs.
        engine: how it is computed there (`load`).
    """
    loaded = load(model, device, engine).for_keypoints()
    found = find_keypoints(image, keypoints, mask, max_keypoints, upright, detector, spread, exif, max_size)
    return describe_found(found, loaded)


@dataclass(frozen=True, eq=False)
class Found:
    """Keypoints of an image, not yet described.

    ``pixels`` uint8 (H, W) may be a smaller copy of the image, in whose coordinates the keypoints are; ``factor`` says how many
    pixels of the image lie along one of the copy; ``size`` is the width and height of the image.
    """

    pixels: np.ndarray
    keypoints: Keypoints
    factor: float
    size: tuple[int, int]
    path: Path | None


def find_keypoints(
    image: ImageLike,
    keypoints: KeypointsLike | None = None,
    mask: ImageLike | None = None,
    max_keypoints: int | None = MAX_KEYPOINTS,
    upright: bool = False,
    detector: str = "dog",
    spread: bool = True,
    exif: bool | None = None,
    max_size: int | None = None,
) -> Found:
    """The part of `extract` that needs no model."""
    check_max_size(max_size)
    whole = read_gray(image, bool(exif))
    pixels, factor = whole, 1.0
    allowed: Any = read_gray(mask, bool(exif)) if isinstance(mask, (str, Path)) else mask
    if max_size is not None and max_size < max(whole.shape):
        pixels, factor = limit(whole, max_size), max(whole.shape) / max_size
        allowed = None if allowed is None else _smaller_mask(allowed, whole.shape, pixels.shape)
    if keypoints is None:
        found = detect(pixels, detector, max_keypoints, allowed, spread, upright)
    else:
        given = Keypoints.given(keypoints)
        if exif is None and isinstance(image, (str, Path)) and turned_by_exif(image):
            raise UserError(
                f"{image} is turned by its EXIF orientation: give exif=True where the keypoints were found in the turned image "
                "that cv2.imread gives, or exif=False where in the pixels as they are stored"
            )
        _refuse_outside(given, whole)
        found = given.moved(1 / factor, _shift(1 / factor)) if factor != 1 else given
        found = found.upright() if upright else found
    path = local_path(image)
    return Found(pixels, found, factor, (whole.shape[1], whole.shape[0]), path)


def describe_found(found: Found, model: ModelLike) -> Features:
    """Features with places and scales in the image itself."""
    features = describe(found.pixels, found.keypoints, model, found.path)
    if found.factor == 1:
        return features
    keypoints = features.keypoints.moved(found.factor, _shift(found.factor))
    return dataclasses.replace(features, keypoints=keypoints, image_size=found.size)


def describe(pixels: np.ndarray, keypoints: KeypointsLike, model: ModelLike, path: Path | None = None) -> Features:
    """Features of keypoints that are known: pixels uint8 (H, W); ``path`` is remembered for drawing."""
    model, given = load(model), Keypoints.given(keypoints)
    return Features(
        keypoints=given,
        descriptors=model.describe_keypoints(pixels, given),
        image_size=(pixels.shape[1], pixels.shape[0]),
        image_path=path,
        model=model.id,
        ratio=model.ratio,
    )


def check_max_size(max_size: int | None) -> None:
    """Raise UserError where `extract` would."""
    if max_size is not None and max_size < SMALLEST:
        raise UserError(f"max_size must be at least {SMALLEST} pixels, got {max_size}")


def _refuse_outside(keypoints: Keypoints, image: np.ndarray) -> None:
    """Raise UserError for keypoints beyond the image by more than the pixel by which refined positions may be."""
    height, width = image.shape
    beyond = torch.maximum((-1 - keypoints.xy).amax(1), (keypoints.xy - torch.tensor([width, height])).amax(1)) > 0
    outside = beyond.nonzero().flatten().tolist()
    if outside:
        x, y = keypoints.xy[outside[0]].tolist()
        raise UserError(
            f"{len(outside)} of {len(keypoints)} keypoints lie outside of the image of {width}x{height} pixels, the first at "
            f"({x:g}, {y:g}); were they found in another image, or one of another size or orientation?"
        )


def _shift(factor: float) -> tuple[float, float]:
    """Where the middle of the first pixel goes when all coordinates are multiplied: the corner of the image stays."""
    return 0.5 * factor - 0.5, 0.5 * factor - 0.5


def _smaller_mask(mask: Any, whole: tuple[int, ...], smaller: tuple[int, ...]) -> np.ndarray:
    """The mask of an image at the middle of each pixel of its smaller copy."""
    if np.shape(mask) != whole:
        raise UserError(f"the mask has shape {np.shape(mask)}, the image {whole}; they must be equal")
    factor = max(whole) / max(smaller)
    rows, columns = (
        np.minimum(((np.arange(small) + 0.5) * factor).astype(int), large - 1)
        for small, large in zip(smaller, whole, strict=True)
    )
    return np.asarray(mask)[rows][:, columns]
