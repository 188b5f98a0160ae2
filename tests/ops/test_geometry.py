"""Homographies of points and keypoints, similarities, and two cameras."""

import math

import numpy as np
import pytest
import torch

from patchprint.common.types import Keypoints, Pose
from patchprint.ops.geometry import (
    align_similarity,
    epipolar_errors,
    fundamental_matrix,
    homography_errors,
    inside,
    jacobian,
    project,
    relative_pose,
    rotation,
    transport,
)

HOMOGRAPHY = np.array([[0.9, 0.2, 5.0], [-0.1, 1.1, -3.0], [1e-3, -5e-4, 1.0]])


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


def test_keypoints_turn_and_grow_with_a_similarity() -> None:
    matrix = np.eye(3)
    matrix[:2, :2] = 2.0 * rotation(0.3)
    matrix[:2, 2] = (5.0, -7.0)
    keypoints = Keypoints(torch.tensor([[10.0, 20.0]]), torch.tensor([3.0]), torch.tensor([0.2]))
    moved = transport(keypoints, matrix)
    np.testing.assert_allclose(moved.xy.numpy(), project(matrix, np.array([[10.0, 20.0]])), rtol=1e-6)
    assert moved.scale.item() == pytest.approx(6.0)
    assert moved.angle.item() == pytest.approx(0.5)


def test_pixels_reach_half_beyond_their_centers() -> None:
    corners = np.array([[-0.5, -0.5], [-0.6, 0.0], [9.5, 4.5], [9.5, 4.6]])
    assert inside(corners, (5, 10)).tolist() == [True, False, True, False]


def test_similarity_of_point_sets_is_found() -> None:
    source = np.random.default_rng(0).normal(size=(6, 3))
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    scale, found, shift = align_similarity(source, 2.5 * source @ turn.T + (1.0, 2.0, 3.0))
    assert scale == pytest.approx(2.5)
    np.testing.assert_allclose(found, turn, atol=1e-9)
    np.testing.assert_allclose(shift, [1.0, 2.0, 3.0], atol=1e-9)
    assert math.isclose(np.linalg.det(found), 1.0)


def test_errors_of_a_homography_count_both_points() -> None:
    """Under a pure shift both points share the correction: each moves half of the way."""
    xy = np.array([[10.0, 20.0], [100.0, 50.0], [70.0, 30.0]])
    shift = np.array([[1.0, 0, 7], [0, 1, -2], [0, 0, 1]])
    off = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, -1.0]])
    np.testing.assert_allclose(homography_errors(shift, xy, project(shift, xy) + off), [0, 5 / 2**0.5, 1 / 2**0.5])
    np.testing.assert_allclose(homography_errors(HOMOGRAPHY, xy, project(HOMOGRAPHY, xy)), 0, atol=1e-9)
    # The size of the matrix does not matter, and each direction sees the same.
    there = homography_errors(3 * HOMOGRAPHY, xy, project(HOMOGRAPHY, xy) + 0.1 * off)
    same = homography_errors(HOMOGRAPHY, xy, project(HOMOGRAPHY, xy) + 0.1 * off)
    np.testing.assert_allclose(there, same, atol=1e-9)
    back = homography_errors(np.linalg.inv(HOMOGRAPHY), project(HOMOGRAPHY, xy) + 0.1 * off, xy)
    np.testing.assert_allclose(there, back, rtol=0.02, atol=1e-9)


def test_errors_of_a_fundamental_matrix_are_across_the_lines() -> None:
    """A camera that moves sideways: points stay in their rows."""
    sideways = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    a = np.array([[10.0, 20.0], [100.0, 50.0]])
    b = a + np.array([[33.0, 0.0], [-5.0, 2.0]])
    np.testing.assert_allclose(epipolar_errors(sideways, a, b), [0, 2 / 2**0.5])
    pairwise = epipolar_errors(sideways, a[:, None], b[None])
    assert pairwise.shape == (2, 2)
    np.testing.assert_allclose(np.diag(pairwise), [0, 2 / 2**0.5])


def test_a_point_in_space_is_on_the_epipolar_lines_of_two_cameras() -> None:
    rng = np.random.default_rng(3)
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2)]
    cameras = [Pose(turn * np.sign(np.linalg.det(turn)), rng.normal(size=3)) for turn in turns]
    inner = [np.array([[f, 0, 300.0], [0, f + 9, 200.0], [0, 0, 1]]) for f in (700.0, 500.0)]
    points = rng.normal(size=(20, 3)) * 10
    seen = [(points - camera.center) @ camera.rotation.T for camera in cameras]
    turn, shift = relative_pose(*cameras)
    np.testing.assert_allclose(seen[0] @ turn.T + shift, seen[1], atol=1e-9)
    pixels = [space @ intrinsics.T for space, intrinsics in zip(seen, inner, strict=True)]
    a, b = (each[:, :2] / each[:, 2:] for each in pixels)
    fundamental = fundamental_matrix(turn, shift, *inner)
    np.testing.assert_allclose(epipolar_errors(fundamental, a, b), 0, atol=1e-6)
    assert (epipolar_errors(fundamental, a, b + np.array([3.0, -2.0])) > 0.05).mean() > 0.9
