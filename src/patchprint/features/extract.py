"""One picture in, keypoints with prints out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from patchprint.errors import UserError
from patchprint.features import describers
from patchprint.features.detect import MAX_KEYPOINTS, detect
from patchprint.interop.images import ImageLike, read_gray
from patchprint.networks import PatchNetwork
from patchprint.types import Features, Keypoints


def extract(
    image: ImageLike,
    model: str | Path | PatchNetwork | describers.Describer = describers.DEFAULT_MODEL,
    keypoints: Keypoints | None = None,
    mask: np.ndarray | None = None,
    max_keypoints: int | None = MAX_KEYPOINTS,
    upright: bool = False,
    detector: str = "dog",
    exif: bool = False,
    device: str | torch.device = "cpu",
) -> Features:
    """Detect and describe the keypoints of one picture.

    Args:
        image: a file, or an array (H, W) or (H, W, 3) in RGB; uint8, uint16, or float in [0, 1].
        model: the name of shipped weights or of a baseline (sift, rootsift, pixels), a weight file, or a loaded model.
        keypoints: describe these, all of them and in this order, instead of detecting; points outside of the picture see
            its repeated border.
        mask: (H, W), keypoints where it is zero are not detected; not used with given ``keypoints``.
        upright: ignore the angles. Better where the camera was always held level, hopeless where it was not.
        exif: turn the picture as its EXIF orientation says (default: pixels as they are stored, as COLMAP has them).
        device: where a model given by name runs.
    """
    pixels = read_gray(image, exif)
    describer = describers.create(model, device)
    if keypoints is None:
        keypoints = detect(pixels, detector, max_keypoints, mask, upright=upright)
    elif not torch.isfinite(keypoints.xy).all() or not (keypoints.scale > 0).all():
        raise UserError("the given keypoints must have finite positions and positive scales")
    if upright:
        keypoints = keypoints.upright()
    return Features(
        keypoints=keypoints,
        descriptors=describer.describe_keypoints(pixels, keypoints),
        image_size=(pixels.shape[1], pixels.shape[0]),
        image_path=Path(image) if isinstance(image, (str, Path)) else None,
        model=describer.id,
    )
