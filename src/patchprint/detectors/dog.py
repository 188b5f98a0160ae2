"""Differences of Gaussians with SIFT's orientations, as OpenCV finds them (with precise upscale)."""

from __future__ import annotations

import numpy as np

from patchprint.detectors._base import Detector, strongest_first
from patchprint.interop import opencv
from patchprint.types import Keypoints

CONTRAST = 0.02  # COLMAP's peak threshold in OpenCV's unit; OpenCV's own leaves large photos with few keypoints
PUBLISHED_CONTRAST = 0.04  # OpenCV's own, which published tables on the Oxford sequences were made with


def find_dog(
    image: np.ndarray, max_keypoints: int | None = None, mask: np.ndarray | None = None, contrast: float = CONTRAST
) -> Keypoints:
    """All keypoints above ``contrast``, strongest first; a point with two orientations counts twice."""
    if min(image.shape) < 4:  # OpenCV cannot build a pyramid of it
        return Keypoints.empty()
    allowed = None if mask is None else (np.asarray(mask) != 0).astype(np.uint8)
    return strongest_first(Keypoints.from_opencv(opencv.create_sift(contrast).detect(image, allowed)))


detector = Detector(
    "differences of Gaussians (OpenCV SIFT, precise upscale)",
    "blobs",
    find_dog,
    {"published": {"contrast": PUBLISHED_CONTRAST}},
)
