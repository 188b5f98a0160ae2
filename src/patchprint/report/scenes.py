"""A sparse 3D model on a page: its numbers, points and cameras that a reader turns, and an image of them without WebGL."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from patchprint.common import files
from patchprint.common.errors import require
from patchprint.common.table import Table
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.page import Section

MOST_POINTS = 40_000
MOST_CAMERAS = 2000
_REACH = 0.95  # the part of the points that the first view shows
_FULL = 32767  # of a 16-bit integer
_FAR = 8.0  # times the reach, beyond which a point is a mistake that would hide the others
_CAMERA = "#d0402b"
_COLUMNS = {
    "registered": "{registered} of {photos}",
    "points": "{points:,}",
    "observations": "{observations:,}",
    "track length": "{track_length:.2f}",
    "reprojection px": "{reprojection_error_px:.3f}",
    "seconds": "{seconds:.1f}",
}
_PLAIN_NAMES = ("images", "photos", "pictures")


@dataclass(frozen=True, eq=False)
class Scene:
    """Points and cameras; at most MOST_POINTS are shown, taken at random, and the page says so.

    Shape:
        points (N, 3), colors (N, 3) uint8; names: C of images; centers (C, 3) of their cameras; corners (C, 4, 3): of the
        images, at depth 1 before the camera, in the order around it, up first.
    """

    points: np.ndarray
    colors: np.ndarray
    names: Sequence[str]
    centers: np.ndarray
    corners: np.ndarray
    image: EmbeddedImage
    wide: bool = True

    template: ClassVar[str] = "scene.html"

    def note(self) -> str:
        """Return how much of the model is shown."""
        near, shown, cameras = len(self._near), len(self._shown), min(len(self.names), MOST_CAMERAS)
        how = ", a random sample" if shown < near else ", without those far outside" if near < len(self.points) else ""
        counts = f"{shown:,} of {len(self.points):,} points{how}, and {cameras:,} of {len(self.names):,} cameras."
        return (
            f"{counts} Drag to turn; scroll (after a click) or pinch to zoom; drag with the right button or two fingers to "
            "move. The arrow keys, + and - work too."
        )

    def data(self) -> dict[str, Any]:
        """Return the input of scene.js: +y is up, the center at 0, most points within 1; positions as 16-bit integers."""
        middle, reach, turn = self._frame
        points = (self.points[self._shown] - middle) @ turn.T / reach
        largest = float(np.abs(points).max(initial=1.0))
        packed = np.round(points / largest * _FULL).astype("<i2")
        size = 0.06 if len(self.names) < 100 else 0.03
        centers, corners = ((part - middle) @ turn.T / reach for part in (self.centers, self.corners))
        corners = centers[:, None] + (corners - centers[:, None]) * reach * size
        frusta = np.concatenate([centers[:, None], corners], 1)[:MOST_CAMERAS]
        # The first view is behind most cameras and a little above.
        away = float(np.quantile(np.linalg.norm(centers, axis=1), 0.9)) if len(centers) else 0.0
        back = min(max(2.0, 1.2 * away), 8.0)
        return {
            "positions": base64.b64encode(packed.tobytes()).decode(),
            "unit": largest / _FULL,
            "colors": base64.b64encode(np.ascontiguousarray(self.colors[self._shown], np.uint8).tobytes()).decode(),
            "names": list(self.names)[:MOST_CAMERAS],
            "frusta": np.round(frusta.reshape(-1), 5).tolist(),
            "eye": [0.0, 0.3 * back, back],
            # A little toward the cameras, so that they are in the image, too.
            "at": np.round(0.3 * centers.mean(0), 5).tolist() if len(centers) else [0.0, 0.0, 0.0],
        }

    @cached_property
    def _frame(self) -> tuple[np.ndarray, float, np.ndarray]:
        """Center, radius and rotation of the scene; the mean up direction of the cameras becomes +y."""
        if not len(self.points):
            return np.zeros(3), 1.0, np.eye(3)
        middle = np.median(self.points, 0)
        reach = float(np.quantile(np.linalg.norm(self.points - middle, axis=1), _REACH)) or 1.0
        up, away = np.array([0.0, -1.0, 0.0]), np.array([0.0, 0.0, 1.0])
        if len(self.corners):
            up = (self.corners[:, :2].mean(1) - self.corners[:, 2:].mean(1)).mean(0)
            away = middle - self.centers.mean(0)
        return middle, reach, _axes(up, away)

    @cached_property
    def _near(self) -> np.ndarray:
        middle, reach, _ = self._frame
        return np.flatnonzero(np.linalg.norm(self.points - middle, axis=1) <= _FAR * reach)

    @cached_property
    def _shown(self) -> np.ndarray:
        if len(self._near) <= MOST_POINTS:
            return self._near
        return np.sort(np.random.default_rng(0).permutation(self._near)[:MOST_POINTS])


def scene_section(model: Any, image: Path) -> Section:
    """Return the viewer of a ``pycolmap.Reconstruction``, with the image that `draw_model` drew of it."""
    drawn = EmbeddedImage.from_file(image, "The points from the front and from above; triangles are cameras.")
    names, corners = [], []
    for number in model.reg_image_ids():
        view = model.images[number]
        camera, rotation = model.cameras[view.camera_id], np.asarray(view.cam_from_world().rotation.matrix())
        # Top left first and clockwise, at depth 1, without distortion.
        across, down = np.array([camera.width, camera.height]) / 2 / camera.mean_focal_length()
        frame = np.array([(-across, -down, 1.0), (across, -down, 1.0), (across, down, 1.0), (-across, down, 1.0)])
        names.append(view.name)
        corners.append(view.projection_center() + frame @ rotation)
    points, colors, centers = _arrays(model)
    return Section("The scene", [Scene(points, colors, names, centers, np.array(corners).reshape(-1, 4, 3), drawn)])


def name_of(images: Path) -> str:
    """Return the name of an image folder; for "images" and the like that of the folder around it."""
    folder = images.resolve()
    return folder.parent.name if folder.name.lower() in _PLAIN_NAMES and folder.parent.name else folder.name


def models_table(summary: dict[str, dict[str, Any]]) -> Table:
    """Return the numbers of models of the same images, a row for each kind of descriptor."""
    rows = [[name, *(cell.format(**numbers) for cell in _COLUMNS.values())] for name, numbers in summary.items()]
    caption = "Registered: images whose camera was found. Track length: images that show a point, on average."
    return Table(["descriptor", *_COLUMNS], rows, caption)


def draw_model(model: Any, path: Path) -> None:
    """Draw the colored points and the cameras (red) from the front and from above."""
    pyplot = require("matplotlib.figure", extra="images")
    points, colors, centers = _arrays(model)
    # Rotated to the view of the first image: x to the right, y down, z away from the camera.
    rotation = model.images[model.reg_image_ids()[0]].cam_from_world().rotation.matrix()
    middle, reach = np.median(points, 0), np.quantile(np.abs(points - np.median(points, 0)), 0.98)
    kept = (np.abs(points - middle) < 2 * reach).all(1)
    points, centers = (points[kept] - middle) @ rotation.T, (centers - middle) @ rotation.T
    figure = pyplot.Figure(figsize=(12, 6), layout="constrained")
    for axes, (across, down), title in zip(figure.subplots(1, 2), [(0, 1), (0, 2)], ["front", "above"], strict=True):
        axes.scatter(points[:, across], points[:, down], s=1, c=colors[kept] / 255, linewidths=0)
        axes.scatter(centers[:, across], centers[:, down], s=18, c=_CAMERA, marker="^")
        seen = f"{len(points)} of {len(kept)} points, {len(centers)} cameras"
        axes.set(title=f"{title}: {seen}", aspect="equal", xticks=[], yticks=[])
        if title == "front":
            axes.invert_yaxis()
    with files.atomic_file(path) as temporary:
        figure.savefig(temporary, dpi=110, format="png")


def _arrays(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the points of a model (N, 3), their colors (N, 3) uint8, and the centers of its cameras (C, 3)."""
    points = np.array([point.xyz for point in model.points3D.values()]).reshape(-1, 3)
    colors = np.array([point.color for point in model.points3D.values()], np.uint8).reshape(-1, 3)
    centers = [model.images[number].projection_center() for number in model.reg_image_ids()]
    return points, colors, np.array(centers).reshape(-1, 3)


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
