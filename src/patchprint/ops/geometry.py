"""Homographies of points and keypoints, similarities, and the geometry of two cameras.

Arrays are NumPy float64, because positions in large images need the digits.
"""

import math

import numpy as np
import torch
from torch import Tensor

from patchprint.common.types import Keypoints, Pose


def project(homography: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """Map points by a homography; those on or beyond the horizon become infinite.

    Shape:
        homography (3, 3), xy (N, 2) -> (N, 2) float64.
    """
    points = np.concatenate([xy, np.ones((len(xy), 1))], axis=1) @ np.asarray(homography, np.float64).T
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(points[:, 2:] > 1e-9, points[:, :2] / points[:, 2:], np.inf)


def jacobian(homography: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """Compute the derivative of a homography at each point: homography (3, 3), xy (N, 2) -> (N, 2, 2) float64."""
    w = xy @ homography[2, :2] + homography[2, 2]
    ahead = project(homography, xy)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (homography[None, :2, :2] - ahead[:, :, None] * homography[None, 2:, :2]) / w[:, None, None]


def transport(keypoints: Keypoints, homography: np.ndarray) -> Keypoints:
    """Map keypoints by a homography, with scale and angle by its derivative."""
    xy = keypoints.xy.cpu().double().numpy()
    stretch = jacobian(homography, xy)
    angle = keypoints.angle.cpu().double().numpy()
    direction = stretch @ np.stack([np.cos(angle), np.sin(angle)], -1)[:, :, None]
    scale = keypoints.scale.cpu() * torch.from_numpy(np.sqrt(np.abs(np.linalg.det(stretch))))
    turned = np.arctan2(direction[:, 1, 0], direction[:, 0, 0])
    return Keypoints(torch.from_numpy(project(homography, xy)), scale, torch.from_numpy(turned), keypoints.score)


def inside(xy: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Whether points lie on the pixels of an image of shape (H, W): (N, 2) -> (N,) bool."""
    right, bottom = shape[1] - 0.5, shape[0] - 0.5
    return (xy[:, 0] >= -0.5) & (xy[:, 1] >= -0.5) & (xy[:, 0] <= right) & (xy[:, 1] <= bottom)


def rotation(angle: np.ndarray | float) -> np.ndarray:
    """Create rotations from the x axis towards the y axis: angle (...) in radians -> (..., 2, 2)."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], -2)


def align_similarity(source: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Fit Umeyama's similarity: least squares of ``scale * turn @ source + shift`` to the target.

    Shape:
        source (N, 3), target (N, 3) -> scale, turn (3, 3), shift (3,).
    """
    middle_source, middle_target = source.mean(0), target.mean(0)
    a, b = source - middle_source, target - middle_target
    u, values, vt = np.linalg.svd(b.T @ a)
    sign = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    turn = u @ sign @ vt
    scale = float((values * np.diag(sign)).sum() / (a**2).sum())
    return scale, turn, middle_target - scale * turn @ middle_source


def homography_errors(homography: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute Sampson's distance of matches from a homography: how far both points together must move, to first order.

    Shape:
        homography (3, 3), a (N, 2), b (N, 2) -> (N,) pixels.
    """
    depth = a @ homography[2, :2] + homography[2, 2]
    error = a @ homography[:2, :2].T + homography[:2, 2] - b * depth[:, None]
    by_a = homography[None, :2, :2] - b[:, :, None] * homography[None, 2:, :2]
    # The derivative by b is -depth times the identity.
    covariance = by_a @ by_a.transpose(0, 2, 1) + (depth**2)[:, None, None] * np.eye(2)
    return np.sqrt(np.einsum("ni,nij,nj->n", error, np.linalg.inv(covariance), error))


def epipolar_errors(fundamental: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute Sampson's distance of matches from an epipolar geometry: how far both points together must move.

    Shape:
        fundamental (3, 3), a (..., 2), b (..., 2) -> (...,) pixels.
    """
    lines_in_b = a @ fundamental[:, :2].T + fundamental[:, 2]
    lines_in_a = b @ fundamental[:2] + fundamental[2]
    error = (lines_in_b[..., :2] * b).sum(-1) + lines_in_b[..., 2]
    slope = (lines_in_b[..., :2] ** 2).sum(-1) + (lines_in_a[..., :2] ** 2).sum(-1)
    return np.abs(error) / np.sqrt(np.maximum(slope, np.finfo(float).tiny))


def relative_pose(a: Pose, b: Pose) -> tuple[np.ndarray, np.ndarray]:
    """Compute the pose of b relative to a: a point x of a's space is ``rotation @ x + translation`` in b's.

    Shape:
        -> rotation (3, 3), translation (3,).
    """
    return b.rotation @ a.rotation.T, b.rotation @ (a.center - b.center)


def fundamental_matrix(
    rotation: np.ndarray, translation: np.ndarray, intrinsics_a: np.ndarray, intrinsics_b: np.ndarray
) -> np.ndarray:
    """Compute the fundamental matrix, from pixels of the first camera to lines in the second.

    Shape:
        rotation (3, 3), translation (3,) as `relative_pose` gives them, intrinsics (3, 3) -> (3, 3).
    """
    x, y, z = translation
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.linalg.inv(intrinsics_b).T @ cross @ rotation @ np.linalg.inv(intrinsics_a)


def wrap_angle(angle: Tensor) -> Tensor:
    """The same angle in [-pi, pi), any shape."""
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
