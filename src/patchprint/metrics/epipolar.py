"""How well the geometry of two images was found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from patchprint.metrics.cameras import rotation_angle
from patchprint.ops.geometry import project


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
