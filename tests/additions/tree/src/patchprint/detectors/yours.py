"""Blobs of a higher contrast."""

from __future__ import annotations

import numpy as np

from patchprint.common.types import Keypoints
from patchprint.detectors import Detector
from patchprint.detectors.dog import find_dog


def find(
    image: np.ndarray, max_keypoints: int | None = None, mask: np.ndarray | None = None, contrast: float = 0.03
) -> Keypoints:
    return find_dog(image, max_keypoints, mask, contrast)


detector = Detector("blobs of a higher contrast", "blobs", find, {"strict": {"contrast": 0.05}})
