"""OpenCV: our keypoints as its own (`Keypoints.from_opencv` is the way back), and its SIFT, ORB and BEBLID by default settings.

OpenCV puts the center of the top-left pixel at (0, 0) and measures angles clockwise on the screen, both as we do, but
``cv2.KeyPoint.size`` is a diameter (twice sigma) and angles are degrees.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import MissingPackageError, require
from patchprint.common.types import Keypoints

SIFT_SIGMA = 1.6  # blur of the first layer of every octave, in pixels of that octave
LAYERS_PER_OCTAVE = 3
# What BEBLID multiplies the size of keypoints with, as its documentation says.
BEBLID_SCALE = {"orb": 1.0, "sift": 6.75}


def from_keypoints(keypoints: Keypoints) -> list[Any]:
    """Keypoints to ``list[cv2.KeyPoint]``, with the pyramid octave that OpenCV's own SIFT needs to describe them."""
    cv2 = require("cv2", extra="images")
    xy = keypoints.xy.cpu().double().numpy()
    size = keypoints.scale.cpu().double().numpy() * 2
    degrees = np.mod(np.degrees(keypoints.angle.cpu().double().numpy()), 360.0)
    score = np.zeros(len(size)) if keypoints.score is None else keypoints.score.cpu().double().numpy()
    octave = sift_octaves(size / 2)
    return [
        cv2.KeyPoint(x=x, y=y, size=s, angle=a, response=r, octave=int(o))
        for (x, y), s, a, r, o in zip(xy, size, degrees, score, octave, strict=True)
    ]


def sift_octaves(sigma: np.ndarray) -> np.ndarray:
    """OpenCV's packed octave (octave in the low byte, layer in the next) whose blur is nearest to sigma, (N,) int."""
    level = np.rint(LAYERS_PER_OCTAVE * np.log2(np.maximum(sigma, 1e-3) / SIFT_SIGMA)).astype(np.int64)
    level = np.maximum(level, -LAYERS_PER_OCTAVE)  # the first octave is the image enlarged twice
    octave = np.maximum((level - 1) // LAYERS_PER_OCTAVE, -1)
    return (octave & 255) | ((level - octave * LAYERS_PER_OCTAVE) << 8)


def normalize_sift(descriptors: np.ndarray, root: bool) -> np.ndarray:
    """Unit length; RootSIFT takes the square root of the L1-normalized histogram first (Arandjelovic, Zisserman 2012)."""
    values = descriptors.astype(np.float32)
    if root:
        return np.sqrt(values / np.maximum(values.sum(1, keepdims=True), 1e-8))
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-8)


def rootsift(image: np.ndarray, max_keypoints: int) -> tuple[Keypoints, Tensor]:
    """SIFT with OpenCV's defaults, the square roots of its histograms (Arandjelovic, Zisserman 2012).

    Shape:
        image uint8 (H, W) -> N keypoints, strongest first, (N, 128) float32, unit length
    """
    points, found = require("cv2", extra="images").SIFT_create(nfeatures=max_keypoints).detectAndCompute(image, None)
    return _strongest(points, normalize_sift(np.zeros((0, 128)) if found is None else found, root=True), max_keypoints)


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
