"""A sparse model on a page: how much of it there is, the scene to turn, and a picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common import files
from patchprint.common.optional import require
from patchprint.common.table import Table
from patchprint.report.embedded_images import Picture
from patchprint.report.page import Part, Section
from patchprint.report.scenes import Cameras, Scene

_CAMERA = "#d0402b"
_PLAIN_NAMES = ("images", "photos", "pictures")


def scene_section(model: Any, picture: Path, heading: str = "The scene") -> Section:
    """The viewer of a ``pycolmap.Reconstruction``, with the picture that `draw_model` drew of it."""
    drawn = Picture.from_file(picture, "The points from the front and from above; triangles are cameras.")
    points = np.array([point.xyz for point in model.points3D.values()]).reshape(-1, 3)
    colors = np.array([point.color for point in model.points3D.values()], np.uint8).reshape(-1, 3)
    parts: list[Part] = [Scene(points, colors, _cameras(model), drawn)]
    return Section(heading, parts)


def name_of(photos: Path) -> str:
    """What a folder of photos is called; "images" and the like say nothing, but the folder around them does."""
    folder = photos.resolve()
    return folder.parent.name if folder.name.lower() in _PLAIN_NAMES and folder.parent.name else folder.name


def models_table(summary: dict[str, dict[str, Any]]) -> Table:
    """Numbers of models of the same photos, a row for each kind of descriptors."""
    header = ["prints", "registered", "points", "observations", "track length", "reprojection px", "seconds"]
    rows = [
        [
            name,
            f"{numbers['registered']} of {numbers['photos']}",
            f"{numbers['points']:,}",
            f"{numbers['observations']:,}",
            f"{numbers['track_length']:.2f}",
            f"{numbers['reprojection_error_px']:.3f}",
            f"{numbers['seconds']:.1f}",
        ]
        for name, numbers in summary.items()
    ]
    return Table(
        header, rows, "Registered: photos whose camera was found. Track length: photos that show a point, on average."
    )


def draw_model(model: Any, path: Path) -> None:
    """The points with their colors and the cameras (red), from the front and from above."""
    pyplot = require("matplotlib.figure", extra="images")
    points = np.array([point.xyz for point in model.points3D.values()]).reshape(-1, 3)
    colors = np.array([point.color for point in model.points3D.values()]).reshape(-1, 3) / 255
    views = [model.images[i] for i in model.reg_image_ids()]
    centers = np.array([view.projection_center() for view in views]).reshape(-1, 3)
    # Turned as the first photo looks: x to the right, y down, z away from the camera.
    rotation = views[0].cam_from_world().rotation.matrix()
    middle, reach = np.median(points, 0), np.quantile(np.abs(points - np.median(points, 0)), 0.98)
    kept = (np.abs(points - middle) < 2 * reach).all(1)
    points, colors = (points[kept] - middle) @ rotation.T, colors[kept]
    centers = (centers - middle) @ rotation.T
    figure = pyplot.Figure(figsize=(12, 6), layout="constrained")
    for axes, (across, down), title in zip(figure.subplots(1, 2), [(0, 1), (0, 2)], ["front", "above"], strict=True):
        axes.scatter(points[:, across], points[:, down], s=1, c=colors, linewidths=0)
        axes.scatter(centers[:, across], centers[:, down], s=18, c=_CAMERA, marker="^")
        seen = f"{len(points)} of {len(kept)} points, {len(centers)} cameras"
        axes.set(title=f"{title}: {seen}", aspect="equal", xticks=[], yticks=[])
        if title == "front":
            axes.invert_yaxis()
    with files.atomic_file(path) as temporary:
        figure.savefig(temporary, dpi=110, format="png")


def _cameras(model: Any) -> Cameras:
    """Every photo that has a place, with the corners of its picture at depth 1."""
    names: list[str] = []
    centers, corners = [], []
    for number in model.reg_image_ids():
        view = model.images[number]
        camera = model.cameras[view.camera_id]
        rotation = np.asarray(view.cam_from_world().rotation.matrix())
        center = np.asarray(view.projection_center())
        names.append(view.name)
        centers.append(center)
        corners.append(center + _corners(camera) @ rotation)
    return Cameras(names, np.array(centers).reshape(-1, 3), np.array(corners).reshape(-1, 4, 3))


def _corners(camera: Any) -> np.ndarray:
    """Directions to the corners of a picture, top left first and clockwise, (4, 3); distortion is left out."""
    focal = camera.mean_focal_length()
    across, down = camera.width / 2 / focal, camera.height / 2 / focal
    signs: Sequence[tuple[int, int]] = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    return np.array([(x * across, y * down, 1.0) for x, y in signs])
