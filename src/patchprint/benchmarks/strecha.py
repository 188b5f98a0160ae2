"""True cameras of the fountain and Herz-Jesu sets (Strecha et al. 2008), and how far a model is from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.errors import UserError


@dataclass(frozen=True, eq=False)
class Pose:
    """A camera in the world: rotation (3, 3) takes world directions to camera directions; centre (3,) in the world."""

    rotation: np.ndarray
    center: np.ndarray


def read_cameras(folder: Path) -> dict[str, Pose]:
    """Poses by photo name from ``NAME.camera`` files: K, distortion, rotation camera-to-world, centre, size."""
    poses = {}
    for path in sorted(folder.glob("*.camera")):
        try:
            numbers = np.array(path.read_text().split(), dtype=np.float64)
        except ValueError:
            numbers = np.zeros(0)
        if len(numbers) != 26:
            raise UserError(f"{path} is not a camera file; expected 26 numbers: K, distortion, rotation, centre, size")
        rotation = numbers[12:21].reshape(3, 3)
        if not np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-3):
            raise UserError(f"{path} holds no rotation in its lines 5 to 7")
        poses[path.name.removesuffix(".camera")] = Pose(rotation.T, numbers[21:24])
    return poses


def read_intrinsics(path: Path) -> tuple[float, float, float, float] | None:
    """Focal lengths and principal point of ``K.txt`` with the first pixel's centre at (0, 0); None if there is no file."""
    if not path.is_file():
        return None
    matrix = np.loadtxt(path)
    if matrix.shape != (3, 3):
        raise UserError(f"{path} is not a camera matrix; expected 3 lines of 3 numbers")
    return float(matrix[0, 0]), float(matrix[1, 1]), float(matrix[0, 2]), float(matrix[1, 2])


def poses_of_model(model: Any) -> dict[str, Pose]:
    """Poses by photo name of a ``pycolmap.Reconstruction``."""
    poses = {}
    for image in model.images.values():
        if image.has_pose:
            rotation = np.asarray(image.cam_from_world().rotation.matrix())
            poses[image.name] = Pose(rotation, np.asarray(image.projection_center()))
    return poses


def camera_errors(estimate: dict[str, Pose], truth: dict[str, Pose]) -> dict[str, Any]:
    """Rotation (degrees) and position errors (units of the truth) after the best similarity of the centres."""
    names = sorted(set(estimate) & set(truth))
    if len(names) < 3:
        return {"cameras": len(names)}
    scale, turn, shift = align(
        np.stack([estimate[name].center for name in names]), np.stack([truth[name].center for name in names])
    )
    position = [
        float(np.linalg.norm(scale * turn @ estimate[name].center + shift - truth[name].center)) for name in names
    ]
    rotation = [_angle(estimate[name].rotation @ turn.T @ truth[name].rotation.T) for name in names]
    return {
        "cameras": len(names),
        "rotation_degrees": {"median": round(float(np.median(rotation)), 4), "max": round(max(rotation), 4)},
        "position": {"median": round(float(np.median(position)), 5), "max": round(max(position), 5)},
    }


def align(source: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Umeyama's similarity: ``scale * turn @ source + shift`` is nearest to target. (N, 3), (N, 3)."""
    middle_source, middle_target = source.mean(0), target.mean(0)
    a, b = source - middle_source, target - middle_target
    u, values, vt = np.linalg.svd(b.T @ a)
    sign = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    turn = u @ sign @ vt
    scale = float((values * np.diag(sign)).sum() / (a**2).sum())
    return scale, turn, middle_target - scale * turn @ middle_source


def _angle(rotation: np.ndarray) -> float:
    """Angle of a rotation (3, 3) in degrees, exact also near zero."""
    skew = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    return float(np.degrees(np.arctan2(np.linalg.norm(skew), np.trace(rotation) - 1.0)))
