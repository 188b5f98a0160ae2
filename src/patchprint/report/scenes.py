"""A 3D model on a page: colored points and cameras that a reader turns, or an image without WebGL."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from patchprint.report.embedded_images import EmbeddedImage

MOST_POINTS = 40_000
MOST_CAMERAS = 2000
_REACH = 0.95  # the part of the points that the first view shows
_FULL = 32767  # of a 16-bit integer
_FAR = 8.0  # times the reach, beyond which a point is a mistake that would hide the others


@dataclass(frozen=True, eq=False)
class Cameras:
    """Camera poses.

    Shape:
        centers (C, 3); corners (C, 4, 3): of the image, at depth 1 before the camera, in the order around it, up first;
        names: C of them.
    """

    names: Sequence[str]
    centers: np.ndarray
    corners: np.ndarray


@dataclass(frozen=True, eq=False)
class Scene:
    """Points and cameras; at most MOST_POINTS are shown, taken at random, and the page says so.

    Shape:
        points (N, 3), colors (N, 3) uint8.
    """

    points: np.ndarray
    colors: np.ndarray
    cameras: Cameras
    image: EmbeddedImage
    title: str = ""
    wide: bool = True

    template: ClassVar[str] = "scene.html"

    def note(self) -> str:
        """Return how much of the model is shown."""
        near, shown = len(self._near()), len(self._shown())
        words = f"{shown:,} of {len(self.points):,} points" if shown < len(self.points) else f"All {shown:,} points"
        words += f", taken at random out of {near:,} that do not lie far outside" if shown < near else ""
        words += ", without those far outside" if shown == near < len(self.points) else ""
        cameras = min(len(self.cameras.names), MOST_CAMERAS)
        of = f" of {len(self.cameras.names):,}" if cameras < len(self.cameras.names) else ""
        return (
            f"{words}, and {cameras:,}{of} cameras. Drag to turn; scroll (after a click) or pinch to come nearer; drag with "
            "the right button or two fingers to move. The arrow keys, + and - do it too."
        )

    def data(self) -> dict[str, Any]:
        """Return the input of scene.js: +y is up, the center at 0, most points within 1; positions as 16-bit integers."""
        middle, reach, turn = self._frame()
        shown = self._shown()
        points = (self.points[shown] - middle) @ turn.T / reach
        largest = float(np.abs(points).max(initial=1.0))
        packed = np.round(points / largest * _FULL).astype("<i2")
        cameras = self.cameras
        size = 0.06 if len(cameras.names) < 100 else 0.03
        centers, corners = ((part - middle) @ turn.T / reach for part in (cameras.centers, cameras.corners))
        corners = centers[:, None] + (corners - centers[:, None]) * reach * size
        frusta = np.concatenate([centers[:, None], corners], 1)[:MOST_CAMERAS]
        return {
            "positions": base64.b64encode(packed.tobytes()).decode(),
            "unit": largest / _FULL,
            "colors": base64.b64encode(np.ascontiguousarray(self.colors[shown], np.uint8).tobytes()).decode(),
            "names": list(cameras.names)[:MOST_CAMERAS],
            "frusta": np.round(frusta.reshape(-1), 5).tolist(),
            "eye": _eye(centers),
            # A little toward the cameras, so that they are in the image, too.
            "at": np.round(0.3 * centers.mean(0), 5).tolist() if len(centers) else [0.0, 0.0, 0.0],
        }

    def _frame(self) -> tuple[np.ndarray, float, np.ndarray]:
        """Return center, radius and rotation of the scene; the mean up direction of the cameras becomes +y."""
        if not len(self.points):
            return np.zeros(3), 1.0, np.eye(3)
        middle = np.median(self.points, 0)
        reach = float(np.quantile(np.linalg.norm(self.points - middle, axis=1), _REACH)) or 1.0
        corners = self.cameras.corners
        up = (corners[:, :2].mean(1) - corners[:, 2:].mean(1)).mean(0) if len(corners) else np.array([0.0, -1.0, 0.0])
        away = middle - self.cameras.centers.mean(0) if len(corners) else np.array([0.0, 0.0, 1.0])
        return middle, reach, _axes(up, away)

    def _near(self) -> np.ndarray:
        middle, reach, _ = self._frame()
        return np.flatnonzero(np.linalg.norm(self.points - middle, axis=1) <= _FAR * reach)

    def _shown(self) -> np.ndarray:
        near = self._near()
        if len(near) <= MOST_POINTS:
            return near
        return np.sort(np.random.default_rng(0).permutation(near)[:MOST_POINTS])


def _eye(centers: np.ndarray) -> list[float]:
    """Return the position of the first view: behind most cameras and a little above, (C, 3) -> 3 numbers."""
    back = max(2.0, 1.2 * float(np.quantile(np.linalg.norm(centers, axis=1), 0.9)) if len(centers) else 0.0)
    return [0.0, 0.3 * min(back, 8.0), min(back, 8.0)]


def _axes(up: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Return a rotation with rows x, y, z: y along ``up``, the viewing direction ``away`` along -z.

    Shape:
        up (3,), away (3,) -> (3, 3).
    """
    y = up / (np.linalg.norm(up) or 1.0)
    if not y.any():
        y = np.array([0.0, -1.0, 0.0])
    z = -(away - (away @ y) * y)
    if np.linalg.norm(z) < 1e-9:
        z = np.cross(y, [1.0, 0.0, 0.0] if abs(y[0]) < 0.9 else [0.0, 1.0, 0.0])
    z = z / np.linalg.norm(z)
    return np.stack([np.cross(y, z), y, z])
