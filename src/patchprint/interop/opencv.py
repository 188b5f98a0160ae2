"""OpenCV: our keypoints as its own (`Keypoints.from_opencv` is the way back), its SIFT and the SIFT descriptor.

OpenCV puts the center of the top-left pixel at (0, 0) and measures angles clockwise on the screen, both as we do, but
``cv2.KeyPoint.size`` is a diameter (twice sigma) and angles are degrees. Its SIFT finds points 0.25 px too far to the right and
down unless ``enable_precise_upscale`` is set, so it always is here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from patchprint.common.errors import require
from patchprint.common.types import Keypoints

SIFT_SIGMA = 1.6  # blur of the first layer of every octave, in pixels of that octave
LAYERS_PER_OCTAVE = 3
SIFT_GRID = 12.0  # side of SIFT's 4 x 4 grid in units of sigma: each bin is 3 sigma wide
TOOLBOX_SIDE = 5.303  # side of a patch in units of ``cv2.KeyPoint.size``, in the toolbox of HPatches


def create_sift(contrast_threshold: float = 0.04, edge_threshold: float = 10.0, layers: int = LAYERS_PER_OCTAVE) -> Any:
    """``cv2.SIFT`` without a limit on the number of keypoints, and with positions that are not off by a quarter pixel."""
    cv2 = require("cv2", extra="images")
    return cv2.SIFT_create(
        nfeatures=0,
        nOctaveLayers=layers,
        contrastThreshold=contrast_threshold,
        edgeThreshold=edge_threshold,
        sigma=SIFT_SIGMA,
        enable_precise_upscale=True,
    )


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


def sift_keypoints(image: np.ndarray, keypoints: Keypoints) -> list[Any]:
    """Keypoints to ``list[cv2.KeyPoint]`` with octaves that SIFT's pyramid of this image has."""
    points = from_keypoints(keypoints)
    last_octave = int(math.log2(max(4, min(image.shape)))) - 2
    for point in points:
        point.octave = _clamp_octave(point.octave, last_octave)
    return points


def sift_descriptors(image: np.ndarray, keypoints: Keypoints, root: bool = False) -> np.ndarray:
    """SIFT (or RootSIFT) descriptors at given keypoints, unit length.

    Shape:
        image uint8 (H, W) -> float32 (N, 128)
    """
    if len(keypoints) == 0:
        return np.zeros((0, 128), np.float32)
    returned, descriptors = create_sift().compute(image, sift_keypoints(image, keypoints))
    if len(returned) != len(keypoints):
        raise RuntimeError(f"OpenCV described {len(returned)} of {len(keypoints)} keypoints")
    return normalize_sift(descriptors, root)


def sift_patches(patches: np.ndarray, root: bool = False) -> np.ndarray:
    """SIFT (or RootSIFT) of whole patches as the toolbox of HPatches has it: the baseline of published tables.

    One keypoint without an angle in the middle, of the size side / 5.303, in the first octave (hpatches/hpatches-benchmark at
    commit e0c993c, python/extract_opencv_sift.py): gradients are those of the patch as it is, blurred by 1.5 pixels only, and
    the 4 x 4 grid is 1.13 times as wide as the patch.

    Shape:
        patches uint8 (N, S, S), S = 65 in the toolbox -> float32 (N, 128), unit length
    """
    cv2 = require("cv2", extra="images")
    keypoint = cv2.KeyPoint()  # its angle is -1, which OpenCV's descriptor takes for one degree
    keypoint.pt = (patches.shape[-1] / 2, patches.shape[-1] / 2)
    keypoint.size = patches.shape[-1] / TOOLBOX_SIDE
    return _describe_each(patches, keypoint, root)


def sift_patches_smoothed(patches: np.ndarray, root: bool = False) -> np.ndarray:
    """SIFT (or RootSIFT) of whole patches as SIFT describes a keypoint of an image, whose 4 x 4 grid covers the patch.

    The patch is first blurred to the scale of that keypoint, a twelfth of its side.

    Shape:
        patches uint8 (N, S, S) -> float32 (N, 128), unit length
    """
    cv2 = require("cv2", extra="images")
    side = patches.shape[-1]
    sigma = side / SIFT_GRID
    octave = _clamp_octave(int(sift_octaves(np.array([sigma]))[0]), int(math.log2(max(4, side))) - 2)
    return _describe_each(patches, cv2.KeyPoint((side - 1) / 2, (side - 1) / 2, 2 * sigma, 0.0, 0.0, octave), root)


def _describe_each(patches: np.ndarray, keypoint: Any, root: bool) -> np.ndarray:
    """SIFT at the same keypoint of every patch, (N, S, S) -> (N, 128)."""
    sift = create_sift()
    rows = [sift.compute(patch, [keypoint])[1] for patch in patches]
    return normalize_sift(np.concatenate(rows) if rows else np.zeros((0, 128), np.float32), root)


def normalize_sift(descriptors: np.ndarray, root: bool) -> np.ndarray:
    """Unit length; RootSIFT takes the square root of the L1-normalized histogram first (Arandjelovic, Zisserman 2012)."""
    values = descriptors.astype(np.float32)
    if root:
        return np.sqrt(values / np.maximum(values.sum(1, keepdims=True), 1e-8))
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-8)


def sift_octaves(sigma: np.ndarray) -> np.ndarray:
    """OpenCV's packed octave (octave in the low byte, layer in the next) whose blur is nearest to sigma, (N,) int."""
    level = np.rint(LAYERS_PER_OCTAVE * np.log2(np.maximum(sigma, 1e-3) / SIFT_SIGMA)).astype(np.int64)
    level = np.maximum(level, -LAYERS_PER_OCTAVE)  # the first octave is the picture enlarged twice
    octave = (level - 1) // LAYERS_PER_OCTAVE
    octave = np.maximum(octave, -1)
    layer = level - octave * LAYERS_PER_OCTAVE
    return (octave & 255) | (layer << 8)


def _clamp_octave(packed: int, last: int) -> int:
    octave = (packed & 255) - 256 if packed & 128 else packed & 255
    return packed if octave <= last else (max(last, 0) & 255) | (LAYERS_PER_OCTAVE << 8)
