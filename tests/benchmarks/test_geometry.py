"""Reprojection and overlap against cases whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from patchprint.benchmarks.geometry import jacobian, one_to_one, overlap_errors, project, reprojection_errors

from patchprint.types import Keypoints

HOMOGRAPHY = np.array([[0.9, 0.2, 5.0], [-0.1, 1.1, -3.0], [1e-3, -5e-4, 1.0]])


def keypoints(*rows: tuple[float, float, float]) -> Keypoints:
    values = torch.tensor(rows)
    return Keypoints(values[:, :2], values[:, 2], torch.zeros(len(rows)))


def test_projection_and_its_derivative() -> None:
    xy = np.array([[10.0, 20.0], [100.0, 50.0]])
    step = 1e-5
    numeric = np.stack(
        [(project(HOMOGRAPHY, xy + d) - project(HOMOGRAPHY, xy - d)) / (2 * step) for d in np.eye(2) * step], axis=2
    )
    np.testing.assert_allclose(jacobian(HOMOGRAPHY, xy), numeric, atol=1e-6)
    np.testing.assert_allclose(project(np.linalg.inv(HOMOGRAPHY), project(HOMOGRAPHY, xy)), xy, atol=1e-9)


def test_points_behind_the_camera_are_nowhere() -> None:
    beyond = np.array([[1.0, 0, 0], [0, 1, 0], [-0.1, 0, 1]])
    assert np.isinf(project(beyond, np.array([[20.0, 0.0]]))).all()


def test_reprojection_in_pixels() -> None:
    shift = np.array([[1.0, 0, 3], [0, 1, 4], [0, 0, 1]])
    errors = reprojection_errors(keypoints((0, 0, 1)), keypoints((3, 4, 1), (0, 0, 1)), shift)
    np.testing.assert_allclose(errors, [[0.0, 5.0]])


def test_overlap_of_equal_and_nested_circles() -> None:
    errors = overlap_errors(
        keypoints((50, 50, 4)), keypoints((50, 50, 4), (50, 50, 4 * math.sqrt(1.6)), (200, 50, 4)), np.eye(3)
    )
    np.testing.assert_allclose(errors, [[0.0, 1 - 1 / 1.6, 1.0]], atol=0.02)


def test_overlap_of_shifted_circles() -> None:
    # Regions are enlarged to radius 30; unit circles at distance 1/2 share 2 acos(1/4) - sqrt(15) / 8.
    share = 2 * math.acos(0.25) - math.sqrt(15) / 8
    errors = overlap_errors(keypoints((50, 50, 4)), keypoints((65, 50, 4)), np.eye(3))
    assert errors[0, 0] == pytest.approx(1 - share / (2 * math.pi - share), abs=0.02)


def test_overlap_follows_the_scale_of_the_picture() -> None:
    double = np.diag([2.0, 2.0, 1.0])
    errors = overlap_errors(keypoints((50, 50, 4)), keypoints((100, 100, 8), (100, 100, 4)), double)
    assert errors[0, 0] < 0.02
    assert errors[0, 1] > 0.5


def test_no_keypoint_is_joined_twice() -> None:
    errors = np.array([[0.1, 0.2, 9.0], [0.3, 9.0, 9.0], [0.2, 0.1, 9.0]])
    assert one_to_one(errors, 1.0) == 2
