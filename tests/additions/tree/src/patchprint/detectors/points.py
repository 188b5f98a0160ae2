"""A detector that knows neither scale nor angle, as learned ones often do."""

from __future__ import annotations

import cv2
import numpy as np
import torch

from patchprint.common.types import Keypoints
from patchprint.detectors import Detector, keep_inside


def find(image: np.ndarray, max_keypoints: int | None = None, mask: np.ndarray | None = None) -> Keypoints:
    found = cv2.goodFeaturesToTrack(image, max_keypoints or 1000, 0.01, 5)
    xy = torch.from_numpy(np.zeros((0, 2), np.float32) if found is None else found.reshape(-1, 2))
    score = torch.arange(len(xy), 0, -1).float()
    return keep_inside(Keypoints(xy, torch.full((len(xy),), 3.0), torch.zeros(len(xy)), score), mask)


detector = Detector("corners without scale or angle", "other", find)
