"""Image pairs with ground-truth geometry: sequences of a plane, and images with known cameras."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from patchprint.common.errors import UserError
from patchprint.common.types import Features, Matches
from patchprint.interop import strecha
from patchprint.interop.images import list_images
from patchprint.interop.sequences import find_sequences
from patchprint.matching.two_view_geometry import estimate_geometry, estimate_pose
from patchprint.metrics.geometry import corner_error, pose_error
from patchprint.ops.geometry import epipolar_errors, fundamental_matrix, project, relative_pose

CAMERAS = "gt_dense_cameras"


class Truth(Protocol):
    """Ground truth of a pair."""

    # What errors of an estimate are measured in, and up to which of them areas under the curve are taken.
    unit: ClassVar[str]
    limits: ClassVar[tuple[float, ...]]

    def match_errors(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Errors of matches in pixels: (M, 2), (M, 2) -> (M,)."""
        ...

    def estimate_error(self, a: Features, b: Features, matches: Matches) -> float | None:
        """Error of the geometry estimated robustly from the matches; None where the estimator fails."""
        ...


@dataclass(frozen=True, eq=False)
class KnownHomography:
    """From the pixels of the first image to those of the second: (3, 3). An estimate is judged at the corners."""

    homography: np.ndarray
    unit: ClassVar[str] = "px"
    limits: ClassVar[tuple[float, ...]] = (3, 5, 10)

    def match_errors(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.linalg.norm(project(self.homography, a) - b, axis=1)

    def estimate_error(self, a: Features, b: Features, matches: Matches) -> float | None:
        found = estimate_geometry(a, b, matches, "homography").model
        return corner_error(None if found is None else found.numpy(), self.homography, a.image_size)


@dataclass(frozen=True, eq=False)
class KnownCameras:
    """Rotation (3, 3) and translation (3,) from the first camera to the second, and what both are like inside (3, 3).

    Matches are judged by their distance from the epipolar geometry: what is wrong along a line is not seen.
    """

    rotation: np.ndarray
    translation: np.ndarray
    intrinsics: np.ndarray
    unit: ClassVar[str] = "deg"
    limits: ClassVar[tuple[float, ...]] = (1, 5, 10, 20)

    def match_errors(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        fundamental = fundamental_matrix(self.rotation, self.translation, self.intrinsics, self.intrinsics)
        return epipolar_errors(fundamental, a, b)

    def estimate_error(self, a: Features, b: Features, matches: Matches) -> float | None:
        found = estimate_pose(a, b, matches, self.intrinsics, self.intrinsics)
        return pose_error(found, self.rotation, self.translation)


@dataclass(frozen=True)
class Scene:
    """Images by name, and what is known of pairs of them."""

    name: str
    paths: dict[str, Path]
    pairs: dict[tuple[str, str], Truth]


def find_scenes(root: Path, chosen: tuple[str, ...] = ()) -> list[Scene]:
    """Folders with ``gt_dense_cameras``, or sequences with homographies, below ``root``, which may itself be one."""
    folders = [root, *sorted(root.iterdir())] if root.is_dir() else []
    with_cameras = [folder for folder in folders if (folder / CAMERAS).is_dir()]
    if not with_cameras:
        return list(_of_planes(root, chosen))
    missing = set(chosen) - {folder.name for folder in with_cameras}
    if missing:
        names = ", ".join(folder.name for folder in with_cameras)
        raise UserError(f"{root} has no scene {', '.join(sorted(missing))}; it has {names}")
    return [_with_cameras(folder) for folder in with_cameras if not chosen or folder.name in chosen]


def _of_planes(root: Path, chosen: tuple[str, ...]) -> Iterator[Scene]:
    for sequence in find_sequences(root, chosen):
        pairs: dict[tuple[str, str], Truth] = {
            ("1", str(number)): KnownHomography(homography) for number, homography in sequence.homographies.items()
        }
        yield Scene(sequence.name, {str(number): path for number, path in sequence.paths.items()}, pairs)


def _with_cameras(folder: Path) -> Scene:
    """All pairs of the images in ``images/`` that have a camera."""
    known = strecha.read_intrinsics(folder / "K.txt")
    if known is None:
        raise UserError(f"{folder} has no K.txt; expected the camera matrix of its images, 3 lines of 3 numbers")
    fx, fy, cx, cy = known
    intrinsics = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    poses = strecha.read_cameras(folder / CAMERAS)
    images = folder / "images" if (folder / "images").is_dir() else folder
    names = [name for name in list_images(images) if name in poses]
    if len(names) < 2:
        raise UserError(f"{images} has {len(names)} images with a camera in {CAMERAS}; a pair needs 2")
    pairs: dict[tuple[str, str], Truth] = {
        (a, b): KnownCameras(*relative_pose(poses[a], poses[b]), intrinsics)
        for a, b in itertools.combinations(names, 2)
    }
    return Scene(folder.name or folder.resolve().name, {name: images / name for name in names}, pairs)
