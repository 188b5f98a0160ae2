"""True cameras of the fountain and Herz-Jesu sets (Strecha et al. 2008): ``NAME.camera`` and ``K.txt``."""

from pathlib import Path

import numpy as np

from patchprint.common.errors import UserError, parsing
from patchprint.common.types import Pose


def read_cameras(folder: Path) -> dict[str, Pose]:
    """Read poses by image name from ``NAME.camera`` files: K, distortion, rotation camera-to-world, center, size."""
    poses = {}
    for path in sorted(folder.glob("*.camera")):
        try:
            numbers = np.array(path.read_text().split(), dtype=np.float64)
        except ValueError:
            numbers = np.zeros(0)
        if len(numbers) != 26 or not np.isfinite(numbers).all():
            raise UserError(f"{path} is not a camera file; expected 26 numbers: K, distortion, rotation, center, size")
        rotation = numbers[12:21].reshape(3, 3)
        if not np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-3):
            raise UserError(f"{path} holds no rotation in its lines 5 to 7")
        poses[path.name.removesuffix(".camera")] = Pose(rotation.T, numbers[21:24])
    return poses


def read_intrinsics(path: Path) -> tuple[float, float, float, float] | None:
    """Focal lengths and principal point of ``K.txt`` with the first pixel's center at (0, 0); None if there is no file."""
    if not path.is_file():
        return None
    with parsing(path, "a camera matrix; expected 3 lines of 3 numbers"):
        matrix = np.array([line.split() for line in path.read_text("utf-8").splitlines()], np.float64)
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        raise UserError(f"{path} is not a camera matrix; expected 3 lines of 3 numbers")
    return float(matrix[0, 0]), float(matrix[1, 1]), float(matrix[0, 2]), float(matrix[1, 2])
