"""Keypoints and SIFT between our convention and OpenCV's."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from patchprint.common.types import Keypoints
from patchprint.interop import opencv
from support.known_images import texture


def test_opencv_round_trip_and_meaning() -> None:
    raw = cv2.KeyPoint(x=10.25, y=20.5, size=8.0, angle=90.0, response=0.5, octave=0)
    keypoints = Keypoints.from_opencv([raw])
    assert keypoints.xy.tolist() == [[10.25, 20.5]]
    assert float(keypoints.scale) == 4.0
    assert float(keypoints.angle) == pytest.approx(math.pi / 2)
    back = opencv.from_keypoints(keypoints)[0]
    assert (back.pt, back.size, back.response) == (raw.pt, raw.size, raw.response)
    assert back.angle == pytest.approx(raw.angle, abs=1e-4)
    assert float(Keypoints.from_opencv([cv2.KeyPoint(1, 2, 3)]).angle) == 0  # -1 means none


def test_patches_are_described_as_in_the_toolbox_of_hpatches() -> None:
    """One keypoint in the middle of a patch of 65 pixels, 12.257 wide, first octave, its angle unset."""
    patches = np.stack([texture(65, 65, seed) for seed in range(3)])
    keypoint = cv2.KeyPoint(x=32.5, y=32.5, size=2 * 32.5 / 5.303, angle=-1, octave=0)
    expected = np.concatenate([cv2.SIFT_create().compute(patch, [keypoint])[1] for patch in patches])
    ours = opencv.sift_patches(patches)
    np.testing.assert_allclose(ours, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(
        opencv.sift_patches(patches, root=True) ** 2, expected / expected.sum(1, keepdims=True), atol=1e-6
    )
    smoothed = opencv.sift_patches_smoothed(patches)
    assert ((ours * smoothed).sum(1) < 0.97).all(), "that is another descriptor"
    assert opencv.sift_patches(patches[:0]).shape == smoothed[:0].shape == (0, 128)


def test_octaves_are_those_that_opencv_packs() -> None:
    sift = cv2.SIFT_create(enable_precise_upscale=True)
    found = sift.detect(texture())
    ours = opencv.sift_octaves(np.array([k.size / 2 for k in found]))
    assert (ours == np.array([k.octave & 0xFFFF for k in found])).mean() > 0.98


def test_sift_descriptors_equal_opencvs_own() -> None:
    image = texture()
    found, expected = cv2.SIFT_create(enable_precise_upscale=True).detectAndCompute(image, None)
    ours = opencv.sift_descriptors(image, Keypoints.from_opencv(found))
    cosine = (ours * opencv.normalize_sift(expected, root=False)).sum(1)
    assert np.quantile(cosine, 0.02) > 0.999
