"""Keypoints and SIFT between our convention and OpenCV's."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest

from patchprint.interop import opencv
from support.known_images import texture


def test_opencv_round_trip_and_meaning() -> None:
    raw = cv2.KeyPoint(x=10.25, y=20.5, size=8.0, angle=90.0, response=0.5, octave=0)
    keypoints = opencv.to_keypoints([raw])
    assert keypoints.xy.tolist() == [[10.25, 20.5]]
    assert float(keypoints.scale) == 4.0
    assert float(keypoints.angle) == pytest.approx(math.pi / 2)
    back = opencv.from_keypoints(keypoints)[0]
    assert (back.pt, back.size, back.response) == (raw.pt, raw.size, raw.response)
    assert back.angle == pytest.approx(raw.angle, abs=1e-4)
    assert float(opencv.to_keypoints([cv2.KeyPoint(1, 2, 3)]).angle) == 0  # -1 means none


def test_octaves_are_those_that_opencv_packs() -> None:
    sift = cv2.SIFT_create(enable_precise_upscale=True)
    found = sift.detect(texture())
    ours = opencv.sift_octaves(np.array([k.size / 2 for k in found]))
    assert (ours == np.array([k.octave & 0xFFFF for k in found])).mean() > 0.98


def test_sift_descriptors_equal_opencvs_own() -> None:
    image = texture()
    found, expected = cv2.SIFT_create(enable_precise_upscale=True).detectAndCompute(image, None)
    ours = opencv.sift_descriptors(image, opencv.to_keypoints(found))
    cosine = (ours * opencv.normalize_sift(expected, root=False)).sum(1)
    assert np.quantile(cosine, 0.02) > 0.999
