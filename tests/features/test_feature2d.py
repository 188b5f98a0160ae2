"""The stand-in for OpenCV's feature classes."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from patchprint.features.feature2d import Feature2D
from patchprint.interop import opencv
from patchprint.networks import PatchNetwork
from support.known_images import correspondences, texture, turned


@pytest.mark.parametrize("kind", ["network", "binary"])
def test_feature2d_looks_like_opencv(kind: str, network: PatchNetwork, binary: PatchNetwork) -> None:
    feature = Feature2D(network if kind == "network" else binary, max_keypoints=150)
    image = cv2.cvtColor(texture(), cv2.COLOR_GRAY2BGR)
    given = cv2.SIFT_create(30, enable_precise_upscale=True).detect(image)
    before = [(k.pt, k.size, k.angle, k.octave, k.class_id) for k in given]
    returned, descriptors = feature.compute(image, given)
    assert [(k.pt, k.size, k.angle, k.octave, k.class_id) for k in returned] == before
    assert descriptors.shape == (len(given), feature.descriptorSize())
    assert descriptors.dtype == (np.float32 if feature.descriptorType() == cv2.CV_32F else np.uint8)

    rotated, matrix = turned(texture(), 20)
    (points_a, descriptors_a), (points_b, descriptors_b) = (
        feature.detectAndCompute(p, None) for p in (texture(), rotated)
    )
    matches = cv2.BFMatcher(feature.defaultNorm(), crossCheck=True).match(descriptors_a, descriptors_b)
    a, b = opencv.to_keypoints(points_a), opencv.to_keypoints(points_b)
    true = set(zip(*(part.tolist() for part in correspondences(a, b, matrix)), strict=True))
    assert sum((m.queryIdx, m.trainIdx) in true for m in matches) > 0.6 * len(true)
    assert feature.detectAndCompute(np.zeros((40, 40), np.uint8))[1].shape == (0, feature.descriptorSize())
