"""One image in, keypoints with descriptors out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from patchprint.detectors import MAX_KEYPOINTS, detect
from patchprint.features.model import DEFAULT_MODEL, ModelLike, load
from patchprint.interop.images import ImageLike, read_gray
from patchprint.types import Features, Keypoints, KeypointsLike


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
    device: str | torch.device = "cpu",
) -> Features:
    """Detect and describe the keypoints of one image.

    Args:
        image: a file, or an array (H, W) or (H, W, 3) in RGB; uint8, uint16, or float in [0, 1].
        model: the name of shipped weights or of a baseline (sift, rootsift, pixels), a weight file, or a loaded model.
        keypoints: describe these, all of them and in this order, instead of detecting: Keypoints or a list of
            ``cv2.KeyPoint``. Points outside of the image see its repeated border.
        mask: (H, W), keypoints where it is zero are not detected; not used with given ``keypoints``.
        upright: ignore the angles. Better where the camera was always held level, hopeless where it was not.
        spread: give every part of the image its share of the keypoints; without it the strongest are kept.
        exif: turn the image as its EXIF orientation says (default: pixels as they are stored, as COLMAP has them).
        device: where a model given by name runs.
    """
    pixels = read_gray(image, exif)
    loaded = load(model, device).for_keypoints()
    if keypoints is None:
        found = detect(pixels, detector, max_keypoints, mask, spread, upright)
    else:
        found = Keypoints.given(keypoints).upright() if upright else Keypoints.given(keypoints)
    path = Path(image) if isinstance(image, (str, Path)) else None
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
