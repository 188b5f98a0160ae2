"""How far estimated cameras are from true ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from patchprint.ops.geometry import align_similarity
from patchprint.types import Pose


def camera_errors(estimate: dict[str, Pose], truth: dict[str, Pose]) -> dict[str, Any]:
    """Rotation (degrees) and position errors (units of the truth) after the best similarity of the centres."""
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
