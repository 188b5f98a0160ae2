"""OpenCV's own features as its users make them: keypoints and descriptors of SIFT, ORB and BEBLID."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import MissingPackageError, require
from patchprint.common.types import Keypoints
from patchprint.interop.opencv import normalize_sift

# What BEBLID multiplies the size of keypoints with, as its documentation says.
BEBLID_SCALE = {"orb": 1.0, "sift": 6.75}


def rootsift(image: np.ndarray, max_keypoints: int) -> tuple[Keypoints, Tensor]:
    """SIFT with OpenCV's defaults, the square roots of its histograms (Arandjelovic, Zisserman 2012).

    Shape:
        image uint8 (H, W) -> N keypoints, strongest first, (N, 128) float32, unit length
    """
    points, found = require("cv2", extra="images").SIFT_create(nfeatures=max_keypoints).detectAndCompute(image, None)
    histograms = np.zeros((0, 128), np.float32) if found is None else found
    return _strongest(points, normalize_sift(histograms, root=True), max_keypoints)


def orb(image: np.ndarray, max_keypoints: int) -> tuple[Keypoints, Tensor]:
    """ORB with OpenCV's defaults.

    Shape:
        image uint8 (H, W) -> N keypoints, strongest first, (N, 32) uint8 packed bits
    """
    points, found = require("cv2", extra="images").ORB_create(nfeatures=max_keypoints).detectAndCompute(image, None)
    return _strongest(points, np.zeros((0, 32), np.uint8) if found is None else found, max_keypoints)


def beblid(image: np.ndarray, max_keypoints: int) -> tuple[Keypoints, Tensor]:
    """BEBLID of 512 bits at ORB's keypoints, as OpenCV's tutorial has it.

    Shape:
        image uint8 (H, W) -> N keypoints, strongest first, (N, 64) uint8 packed bits
    """
    points = require("cv2", extra="images").ORB_create(nfeatures=max_keypoints).detect(image, None)
    points, found = create_beblid("orb").compute(image, points)
    return _strongest(points, np.zeros((0, 64), np.uint8) if found is None else found, max_keypoints)


def create_beblid(keypoints: str) -> Any:
    """``cv2.xfeatures2d.BEBLID`` of 512 bits for the keypoints of orb or sift."""
    cv2 = require("cv2", extra="images")
    if not hasattr(cv2, "xfeatures2d"):
        raise MissingPackageError("BEBLID is in OpenCV's contributed modules: pip install opencv-contrib-python")
    return cv2.xfeatures2d.BEBLID_create(BEBLID_SCALE[keypoints])


def _strongest(points: Sequence[Any], descriptors: np.ndarray, count: int) -> tuple[Keypoints, Tensor]:
    """At most ``count`` of them: OpenCV gives some more where responses are equal or a point has several angles."""
    keypoints = Keypoints.from_opencv(points)
    assert keypoints.score is not None
    chosen = torch.argsort(keypoints.score, descending=True, stable=True)[:count]
    return keypoints[chosen], torch.from_numpy(descriptors)[chosen]
