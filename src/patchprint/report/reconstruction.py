"""A sparse 3D model on a page: its numbers, the scene to turn, and an image of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common import files
from patchprint.common.errors import require
from patchprint.common.table import Table
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.page import Part, Section
from patchprint.report.scenes import Cameras, Scene

_CAMERA = "#d0402b"
_PLAIN_NAMES = ("images", "photos", "pictures")


def scene_section(model: Any, image: Path, heading: str = "The scene") -> Section:
    """Return the viewer of a ``pycolmap.Reconstruction``, with the image that `draw_model` drew of it."""
    drawn = EmbeddedImage.from_file(image, "The points from the front and from above; triangles are cameras.")
    points = np.array([point.xyz for point in model.points3D.values()]).reshape(-1, 3)
    colors = np.array([point.color for point in model.points3D.values()], np.uint8).reshape(-1, 3)
    parts: list[Part] = [Scene(points, colors, _cameras(model), drawn)]
    return Section(heading, parts)


def name_of(images: Path) -> str:
    """Return the name of an image folder; for "images" and the like that of the folder around it."""
    folder = images.resolve()
    return folder.parent.name if folder.name.lower() in _PLAIN_NAMES and folder.parent.name else folder.name


def models_table(summary: dict[str, dict[str, Any]]) -> Table:
    """Return the numbers of models of the same images, a row for each kind of descriptor."""
    header = ["descriptor", "registered", "points", "observations", "track length", "reprojection px", "seconds"]
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
        header, rows, "Registered: images whose camera was found. Track length: images that show a point, on average."
    )


def draw_model(model: Any, path: Path) -> None:
    """Draw the colored points and the cameras (red) from the front and from above."""
    pyplot = require("matplotlib.figure", extra="images")
    points = np.array([point.xyz for point in model.points3D.values()]).reshape(-1, 3)
    colors = np.array([point.color for point in model.points3D.values()]).reshape(-1, 3) / 255
    views = [model.images[i] for i in model.reg_image_ids()]
    centers = np.array([view.projection_center() for view in views]).reshape(-1, 3)
    # Rotated to the view of the first image: x to the right, y down, z away from the camera.
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
    """Return all registered images, with the corners of each at depth 1."""
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
    """Return directions to the corners of an image, top left first and clockwise, (4, 3), without distortion."""
    focal = camera.mean_focal_length()
    across, down = camera.width / 2 / focal, camera.height / 2 / focal
    signs: Sequence[tuple[int, int]] = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    return np.array([(x * across, y * down, 1.0) for x, y in signs])
