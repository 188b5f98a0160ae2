"""One image in, keypoints with descriptors out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch

from patchprint.detectors import MAX_KEYPOINTS, detect
from patchprint.engines import AUTO
from patchprint.errors import UserError
from patchprint.features.model import DEFAULT_MODEL, ModelLike, load
from patchprint.interop.images import ImageLike, limit, local_path, read_gray
from patchprint.types import Features, Keypoints, KeypointsLike

SMALLEST = 32  # pixels along the longer side of an image that was made smaller


def extract(
    image: ImageLike,
    model: ModelLike = DEFAULT_MODEL,
    keypoints: KeypointsLike | None = None,
    mask: np.ndarray | None = None,
    max_keypoints: int | None = MAX_KEYPOINTS,
    upright: bool = False,
    detector: str = "dog",
    spread: bool = True,
    exif: bool = False,
    max_size: int | None = None,
    device: str | torch.device = "cpu",
    engine: str = AUTO,
) -> Features:
    """Detect and describe the keypoints of one image.

    Args:
        image: a file, a URL of object storage, or an array (H, W) or (H, W, 3) in RGB; uint8, uint16, or float in [0, 1].
        model: the name of shipped weights or of a baseline (sift, rootsift, pixels), a weight file, or a loaded model.
        keypoints: describe these, all of them and in this order, instead of detecting: Keypoints or a list of
            ``cv2.KeyPoint``. Points outside of the image see its repeated border.
        mask: (H, W), keypoints where it is zero are not detected; not used with given ``keypoints``.
        upright: ignore the angles. Better where the camera was always held level, hopeless where it was not.
        spread: give every part of the image its share of the keypoints; without it the strongest are kept.
        exif: turn the image as its EXIF orientation says (default: pixels as they are stored, as COLMAP has them).
        max_size: shrink an image whose longer side has more pixels than this. Keypoints stay in the coordinates of the image.
        device: where a model given by name runs.
        engine: how it is computed there (`load`).
    """
    check_max_size(max_size)
    pixels = read_gray(image, exif)
    loaded = load(model, device, engine).for_keypoints()
    path = local_path(image)
    if max_size is not None and max_size < max(pixels.shape):
        smaller = _Smaller(pixels, max_size)
        given = None if keypoints is None else smaller.keypoints(Keypoints.given(keypoints))
        allowed = None if mask is None else smaller.mask(mask)
        features = extract(smaller.pixels, loaded, given, allowed, max_keypoints, upright, detector, spread)
        return dataclasses.replace(smaller.restored(features), image_path=path)
    if keypoints is None:
        found = detect(pixels, detector, max_keypoints, mask, spread, upright)
    else:
        found = Keypoints.given(keypoints).upright() if upright else Keypoints.given(keypoints)
    return describe(pixels, found, loaded, path)


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


class _Smaller:
    """A smaller copy of an image, and the way there and back."""

    def __init__(self, whole: np.ndarray, max_size: int) -> None:
        self.whole, self.pixels = whole, limit(whole, max_size)
        self.factor = max(whole.shape) / max_size  # pixels of the whole along a pixel of the copy

    def keypoints(self, given: Keypoints) -> Keypoints:
        shift = 0.5 / self.factor - 0.5
        return given.moved(1 / self.factor, (shift, shift))

    def mask(self, given: np.ndarray) -> np.ndarray:
        """The mask (H, W) at the middle of each pixel of the copy."""
        if np.shape(given) != self.whole.shape:
            raise UserError(f"the mask has shape {np.shape(given)}, the image {self.whole.shape}; they must be equal")
        rows, columns = (
            np.minimum(((np.arange(small) + 0.5) * self.factor).astype(int), large - 1)
            for small, large in zip(self.pixels.shape, self.whole.shape, strict=True)
        )
        return np.asarray(given)[rows][:, columns]

    def restored(self, found: Features) -> Features:
        """Features of the copy with places and scales in the whole."""
        shift = 0.5 * self.factor - 0.5
        keypoints = found.keypoints.moved(self.factor, (shift, shift))
        return dataclasses.replace(found, keypoints=keypoints, image_size=(self.whole.shape[1], self.whole.shape[0]))
