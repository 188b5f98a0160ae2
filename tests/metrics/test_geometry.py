"""Cameras are compared up to a similarity of the world."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from patchprint.metrics.geometry import camera_errors
from patchprint.types import Pose


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
