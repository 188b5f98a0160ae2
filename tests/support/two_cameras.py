"""Matches of points in space, as two cameras see them."""

import numpy as np
import torch

from patchprint.common.types import Features, Keypoints, Matches, ModelId
from patchprint.ops.geometry import rotation

SCENES = ("flat", "general", "turning")
FOCAL, WIDTH, HEIGHT = 800.0, 1024, 768
INTRINSICS = np.array([[FOCAL, 0, WIDTH / 2], [0, FOCAL, HEIGHT / 2], [0, 0, 1.0]])
_TURN = np.eye(3)
_TURN[np.ix_([0, 2], [0, 2])] = rotation(0.1)
# Rotation and translation from the first camera to the second, unless that only turns.
RELATIVE_POSE = _TURN, np.array([0.6, 0.1, 0.1])


def seen_by_two_cameras(
    scene: str, count: int, outliers: float, noise: float, seed: int
) -> tuple[Features, Features, Matches]:
    """Points on a slanted plane ("flat"), at all depths ("general"), near a plane ("relief"), or at all depths, seen by a
    camera that only turns ("turning"); ``outliers``: the part of the matches that are wrong."""
    rng = np.random.default_rng(seed)
    across = rng.uniform(-2.5, 2.5, (count, 2))
    anywhere = rng.uniform(4, 10, count)
    depth = {"flat": 6 + across @ (0.5, 0.3), "relief": 5.7 + anywhere / 10}.get(scene, anywhere)
    points = np.column_stack([across, depth])
    turn, moved = RELATIVE_POSE
    shift = np.zeros(3) if scene == "turning" else moved
    views = [_project(points), _project(points @ turn.T + shift)]
    wrong = rng.random(count) < outliers
    views[1][wrong] = rng.uniform((0, 0), (WIDTH, HEIGHT), (wrong.sum(), 2))
    a, b = (_features(view + rng.normal(0, noise, view.shape)) for view in views)
    rows = torch.arange(count)
    return a, b, Matches(torch.stack([rows, rows], 1), torch.zeros(count))


def by_chance(count: int, seed: int) -> tuple[Features, Features, Matches]:
    """Matches of two images that have nothing in common."""
    return seen_by_two_cameras("general", count, 1.0, 0.0, seed)


def _project(points: np.ndarray) -> np.ndarray:
    return FOCAL * points[:, :2] / points[:, 2:] + (WIDTH / 2, HEIGHT / 2)


def _features(xy: np.ndarray) -> Features:
    keypoints = Keypoints(torch.from_numpy(xy), torch.ones(len(xy)), torch.zeros(len(xy)))
    return Features(keypoints, torch.zeros(len(xy), 1), (WIDTH, HEIGHT), None, ModelId("made"))
