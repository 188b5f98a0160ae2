"""Errors of estimated cameras, relative poses and homographies."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from patchprint.common.types import Pose
from patchprint.ops.geometry import align_similarity, project


def camera_errors(estimate: dict[str, Pose], truth: dict[str, Pose]) -> dict[str, Any]:
    """Rotation (degrees) and position errors (units of the truth) after the best similarity of the centers."""
    names = sorted(set(estimate) & set(truth))
    if len(names) < 3:
        return {"cameras": len(names)}
    scale, turn, shift = align_similarity(
        np.stack([estimate[name].center for name in names]), np.stack([truth[name].center for name in names])
    )
    position = [
        float(np.linalg.norm(scale * turn @ estimate[name].center + shift - truth[name].center)) for name in names
    ]
    rotation = [rotation_angle(estimate[name].rotation @ turn.T @ truth[name].rotation.T) for name in names]
    return {
        "cameras": len(names),
        "rotation_degrees": {"median": round(float(np.median(rotation)), 4), "max": round(max(rotation), 4)},
        "position": {"median": round(float(np.median(position)), 5), "max": round(max(position), 5)},
    }


def rotation_angle(rotation: np.ndarray) -> float:
    """Angle of a rotation (3, 3) in degrees, exact also near zero."""
    skew = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    return float(np.degrees(np.arctan2(np.linalg.norm(skew), np.trace(rotation) - 1.0)))


def corner_error(estimate: np.ndarray | None, truth: np.ndarray, image_size: tuple[int, int]) -> float | None:
    """Mean distance in pixels between the corners of an image under two homographies; None without an estimate."""
    if estimate is None:
        return None
    right, bottom = image_size[0] - 1.0, image_size[1] - 1.0
    corners = np.array([[0.0, 0.0], [right, 0.0], [right, bottom], [0.0, bottom]])
    distance = np.linalg.norm(project(estimate, corners) - project(truth, corners), axis=1)
    return round(float(distance.mean()), 3) if np.isfinite(distance).all() else None


def pose_error(
    estimate: tuple[np.ndarray, np.ndarray] | None, rotation: np.ndarray, direction: np.ndarray
) -> float | None:
    """The larger of two angles in degrees: of the rotation between cameras, and of the direction from one to the other.

    Shape:
        estimate: rotation (3, 3) and direction (3,), or None; rotation (3, 3) and direction (3,) that are true.
    """
    if estimate is None:
        return None
    turned, towards = estimate
    cosine = towards @ direction / max(float(np.linalg.norm(towards) * np.linalg.norm(direction)), 1e-300)
    apart = float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
    return round(max(rotation_angle(turned @ rotation.T), apart), 4)


def error_auc(errors: Sequence[float | None], limit: float) -> float:
    """The share of errors below a threshold, averaged over all thresholds from zero to ``limit``; None is beyond any."""
    return float(np.mean([0.0 if error is None else max(0.0, 1.0 - error / limit) for error in errors]))
