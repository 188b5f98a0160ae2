"""The stand-in for OpenCV's feature classes."""

import cv2
import numpy as np
import pytest

from patchprint.common.errors import UserError
from patchprint.common.types import Keypoints
from patchprint.features.feature2d import Feature2D
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
    a, b = Keypoints.from_opencv(points_a), Keypoints.from_opencv(points_b)
    true = set(zip(*(part.tolist() for part in correspondences(a, b, matrix)), strict=True))
    assert sum((m.queryIdx, m.trainIdx) in true for m in matches) > 0.6 * len(true)
    drawn = cv2.drawMatches(texture(), points_a, rotated, points_b, matches, None)
    assert drawn.shape == (*texture().shape[:1], 2 * texture().shape[1], 3)
    if kind == "network":
        near = cv2.FlannBasedMatcher().knnMatch(descriptors_a, descriptors_b, k=2)
        kept = [first for first, second in near if first.distance < 0.9 * second.distance]
        a_xy, b_xy = (
            np.float32([points[i].pt for i in rows])
            for points, rows in ((points_a, [m.queryIdx for m in kept]), (points_b, [m.trainIdx for m in kept]))
        )
        found, _ = cv2.findHomography(a_xy, b_xy, cv2.USAC_MAGSAC, 3.0)
        assert np.abs(found[:2, :2] - matrix[:, :2]).max() < 0.02
    assert feature.detectAndCompute(np.zeros((40, 40), np.uint8))[1].shape == (0, feature.descriptorSize())


def test_what_cannot_be_described_is_told_in_one_sentence(network: PatchNetwork) -> None:
    feature = Feature2D(network)
    for use in (feature.detect, feature.detectAndCompute, lambda image: feature.compute(image, [])):
        with pytest.raises(UserError, match="the image is None"):
            use(None)
    with pytest.raises(UserError, match="keypoint 0 of 1 lies at"):
        feature.compute(texture(), [cv2.KeyPoint(float("inf"), 3, 4)])


def test_our_keypoints_come_back_as_those_of_opencv(network: PatchNetwork) -> None:
    ours = Keypoints(xy=[[20.0, 30.0]], scale=[3.0], angle=[0.5])
    points, descriptors = Feature2D(network).detectAndCompute(texture(), None, ours, useProvidedKeypoints=True)
    assert (points[0].pt, points[0].size) == ((20, 30), 6) and descriptors.shape == (1, network.dim)
