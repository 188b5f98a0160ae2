"""Errors of cameras up to a similarity of the world, of homographies and relative poses, and the area under their curve."""

import cv2
import numpy as np
import pytest

from patchprint.common.types import Pose
from patchprint.metrics.geometry import camera_errors, corner_error, error_auc, pose_error


def random_poses(count: int, seed: int) -> dict[str, Pose]:
    rng = np.random.default_rng(seed)
    rotations = [cv2.Rodrigues(rng.normal(size=3))[0] for _ in range(count)]
    return {str(i): Pose(rotation, rng.normal(size=3)) for i, rotation in enumerate(rotations)}


def test_a_similarity_does_not_count_as_error() -> None:
    truth = random_poses(5, seed=0)
    turn, shift, scale = cv2.Rodrigues(np.array([0.3, -1.0, 2.0]))[0], np.array([4.0, 5, 6]), 0.2
    # The same cameras in another world: X' = scale * turn @ X + shift.
    moved = {n: Pose(p.rotation @ turn.T, scale * turn @ p.center + shift) for n, p in truth.items()}
    errors = camera_errors(moved, truth)
    assert errors["cameras"] == 5
    assert errors["position"]["max"] < 1e-5
    assert errors["rotation_degrees"]["max"] < 1e-3


def test_a_turned_camera_is_noticed() -> None:
    truth = random_poses(5, seed=1)
    ten_degrees = cv2.Rodrigues(np.radians([10.0, 0, 0]))[0]
    wrong = {**truth, "2": Pose(ten_degrees @ truth["2"].rotation, truth["2"].center)}
    errors = camera_errors(wrong, truth)["rotation_degrees"]
    assert errors["max"] == pytest.approx(10.0, abs=1e-3)
    assert errors["median"] == pytest.approx(0.0, abs=1e-3)


def test_corner_error_by_hand() -> None:
    shift = np.array([[1.0, 0, 3], [0, 1, 4], [0, 0, 1]])
    assert corner_error(shift, np.eye(3), (100, 80)) == 5.0
    assert corner_error(None, np.eye(3), (100, 80)) is None


def test_the_larger_angle_counts() -> None:
    turned = cv2.Rodrigues(np.radians([7.0, 0, 0]))[0]
    ahead, aside = np.array([0.0, 0, 2]), np.array([0.0, 1, 1])
    assert pose_error((np.eye(3), ahead), np.eye(3), 5 * ahead) == 0.0
    assert pose_error((turned, ahead), np.eye(3), ahead) == pytest.approx(7.0, abs=1e-3)
    assert pose_error((turned, aside), np.eye(3), ahead) == pytest.approx(45.0, abs=1e-3)
    assert pose_error((np.eye(3), -ahead), np.eye(3), ahead) == pytest.approx(180.0)
    assert pose_error(None, np.eye(3), ahead) is None


def test_area_is_the_mean_share_over_all_thresholds() -> None:
    errors = [0.5, 2.0, 2.9, 7.0, None]
    thresholds = np.linspace(0, 3, 30001)
    shares = [np.mean([error is not None and error <= limit for error in errors]) for limit in thresholds]
    assert error_auc(errors, 3.0) == pytest.approx(np.mean(shares), abs=1e-3)
    assert error_auc([0.0, 0.0], 5.0) == 1.0
    assert error_auc([None, 9.0], 5.0) == 0.0
