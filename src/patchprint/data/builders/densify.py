"""More views for the points of a model: keypoints that lie where a point must be, although SIFT could not match them.

Tracks made by SIFT hold only what SIFT recognises, and a network trained on them alone learns little more. The model knows
where each point is in every registered image. A keypoint there is taken as a further view if its distance to the
projection, its scale (by the depth) and its angle (by the camera's turn) all agree, the surface there is not hidden, and its
patch bears a weak likeness to the nearest view of the track: a passer-by in front of the wall is not in any model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common.optional import require
from patchprint.common.progress import progress
from patchprint.data.builders.sfm_scene import SfmScene, detect_keypoints
from patchprint.data.image_bank import StreamedImages
from patchprint.interop.image_files import read_gray
from patchprint.types import Keypoints

_PATCH_SCALE = 12.0
_CACHE_BYTES = 1 << 30


@dataclass(frozen=True)
class Limits:
    """``px`` from the projection; ``octaves`` and ``radians`` from the predicted scale and angle; ``view_angle`` in degrees
    between the new ray and the nearest ray of the track; ``likeness`` is the correlation with that view; ``depth`` relative
    difference to the surface around, which is known from ``neighbours`` observed points at most ``radius`` pixels away."""

    px: float = 1.5
    octaves: float = 0.33
    radians: float = 0.33
    view_angle: float = 35.0
    likeness: float = 0.3
    depth: float = 0.05
    radius: float = 50.0
    neighbors: int = 4


@dataclass(frozen=True, eq=False)
class AddedViews:
    """Shape: image, point, scale, angle (A,), xy (A, 2); reference (A,) is the observation of the nearest view."""

    image: np.ndarray
    point: np.ndarray
    xy: np.ndarray
    scale: np.ndarray
    angle: np.ndarray
    reference: np.ndarray

    def __len__(self) -> int:
        return len(self.point)

    def select(self, rows: np.ndarray) -> AddedViews:
        return AddedViews(*(getattr(self, field.name)[rows] for field in dataclasses.fields(self)))


def add_views(
    scene: SfmScene, scale: np.ndarray, angle: np.ndarray, paths: Sequence[Path], limits: Limits | None = None
) -> AddedViews:
    """Views that ``scene`` lacks. ``scale`` and ``angle`` (V,) are those of its observations."""
    limits = limits or Limits()
    start = np.flatnonzero(np.r_[True, np.diff(scene.point) > 0])
    rays, widths, tips = _appearance(scene, scale, angle)
    size = np.exp(np.add.reduceat(np.log(widths), start) / np.diff(np.r_[start, len(scene.point)]))
    parts = []
    for image, path in enumerate(progress(paths, "densifying", "image")):
        seen = scene.image == image
        unseen = np.ones(len(scene.xyz), bool)
        unseen[scene.point[seen]] = False
        points = _visible(scene, image, np.flatnonzero(unseen), scene.point[seen], scene.xy[seen], limits)
        view, reference = _nearest_view(scene, image, points, rays, start)
        close = view >= np.cos(np.radians(limits.view_angle))
        points, reference = points[close], reference[close]
        if len(points) == 0:
            continue
        parts.append(_matching_keypoints(scene, image, points, reference, size, tips, detect_keypoints(path), limits))
    if not parts:
        empty, none = np.zeros(0), np.zeros(0, np.int64)
        return AddedViews(none, none, np.zeros((0, 2)), empty, empty, none)
    added = AddedViews(*(np.concatenate(values) for values in zip(*parts, strict=True)))
    return added.select(_likeness(scene, scale, angle, paths, added) >= limits.likeness)


def _appearance(scene: SfmScene, scale: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every observation: unit ray from the point to the camera (V, 3), sigma in world units (V,), and a world point (V, 3)
    one sigma away from the point in the direction of the keypoint's angle."""
    rays, tips, widths = np.zeros((len(scene.xy), 3)), np.zeros((len(scene.xy), 3)), np.zeros(len(scene.xy))
    for image, posed in enumerate(scene.images):
        rows = np.flatnonzero(scene.image == image)
        xyz = scene.xyz[scene.point[rows]]
        towards = posed.projection_center() - xyz
        rays[rows] = towards / np.linalg.norm(towards, axis=1, keepdims=True)
        rotation = posed.cam_from_world().rotation.matrix()
        depth = (posed.cam_from_world() * xyz)[:, 2]
        widths[rows] = scale[rows] * depth / posed.camera.mean_focal_length()
        direction = np.stack([np.cos(angle[rows]), np.sin(angle[rows]), np.zeros(len(rows))], 1) @ rotation
        tips[rows] = xyz + direction * widths[rows, None]
    return rays, widths, tips


def _visible(
    scene: SfmScene, image: int, points: np.ndarray, seen: np.ndarray, seen_xy: np.ndarray, limits: Limits
) -> np.ndarray:
    """Those of ``points`` that lie in the image and on the surface that the image's own points show there."""
    camera = scene.images[image].camera
    xy, depth = scene.project(image, scene.xyz[points])
    inside = (xy > 0).all(1) & (xy < (camera.width - 1, camera.height - 1)).all(1)
    points, xy, depth = points[inside], xy[inside], depth[inside]
    if len(points) == 0 or len(seen) < limits.neighbors:
        return points[:0]
    surface = scene.project(image, scene.xyz[seen])[1]
    distance, index = _tree(seen_xy).query(xy, k=limits.neighbors, distance_upper_bound=limits.radius)
    near = np.isfinite(distance)
    ratio = depth[:, None] / surface[np.where(near, index, 0)]
    # Every neighbor must agree: beside a depth edge one cannot know what is seen.
    agrees = ((ratio > 1 - limits.depth) & (ratio < 1 + limits.depth)) | ~near
    return points[agrees.all(1) & near[:, 0]]


def _nearest_view(
    scene: SfmScene, image: int, points: np.ndarray, rays: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cosine to the nearest ray of each point's track, and the observation it belongs to."""
    towards = scene.images[image].projection_center() - scene.xyz
    towards = towards / np.linalg.norm(towards, axis=1, keepdims=True)
    cosine = (rays * towards[scene.point]).sum(1)
    best = np.maximum.reduceat(cosine, start)
    is_best = np.flatnonzero(cosine == best[scene.point])
    row = np.zeros(len(scene.xyz), np.int64)
    row[scene.point[is_best]] = is_best
    return best[points], row[points]


def _tree(xy: np.ndarray) -> Any:
    return require("scipy.spatial", extra="sfm").cKDTree(xy)


def _matching_keypoints(
    scene: SfmScene,
    image: int,
    points: np.ndarray,
    reference: np.ndarray,
    size: np.ndarray,
    tips: np.ndarray,
    keypoints: Keypoints,
    limits: Limits,
) -> tuple[np.ndarray, ...]:
    """For each point the best keypoint that agrees, each keypoint given to one point only: fields of AddedViews."""
    xy, depth = scene.project(image, scene.xyz[points])
    expected_scale = size[points] * scene.images[image].camera.mean_focal_length() / depth
    direction = scene.project(image, tips[reference])[0] - xy
    expected_angle = np.arctan2(direction[:, 1], direction[:, 0])
    places = keypoints.xy.numpy()
    nearby = _tree(xy).sparse_distance_matrix(_tree(places), limits.px, output_type="ndarray")
    point_row, keypoint, offset = nearby["i"], nearby["j"], nearby["v"]
    octaves = np.abs(np.log2(keypoints.scale.numpy()[keypoint] / expected_scale[point_row]))
    turn = np.abs(np.angle(np.exp(1j * (keypoints.angle.numpy()[keypoint] - expected_angle[point_row]))))
    agrees = (octaves <= limits.octaves) & (turn <= limits.radians)
    cost = (offset / limits.px + octaves / limits.octaves + turn / limits.radians)[agrees]
    point_row, keypoint = point_row[agrees], keypoint[agrees]
    chosen: list[int] = []
    used_points: set[int] = set()
    used_places: set[bytes] = set()
    for candidate in np.lexsort((keypoint, point_row, cost)):
        # Two orientations of one detection are one place.
        place = places[keypoint[candidate]].tobytes()
        if point_row[candidate] not in used_points and place not in used_places:
            used_points.add(point_row[candidate])
            used_places.add(place)
            chosen.append(candidate)
    pick = keypoint[chosen]
    found = keypoints[pick]
    return (
        np.full(len(chosen), image),
        points[point_row[chosen]],
        found.xy.numpy(),
        found.scale.numpy(),
        found.angle.numpy(),
        reference[point_row[chosen]],
    )


def _likeness(
    scene: SfmScene, scale: np.ndarray, angle: np.ndarray, paths: Sequence[Path], added: AddedViews
) -> np.ndarray:
    """Correlation (A,) of each added view with the nearest view of its track, on patches of 16 x 16."""
    images = StreamedImages(len(paths), lambda number: read_gray(paths[number]), cache_bytes=_CACHE_BYTES)
    row = added.reference
    views = [
        (added.image, added.xy, added.scale, added.angle),
        (scene.image[row], scene.xy[row], scale[row], angle[row]),
    ]
    new, old = (_unit_patches(images, *view) for view in views)
    return (new * old).sum(1).float().numpy()


def _unit_patches(
    images: StreamedImages, image: np.ndarray, xy: np.ndarray, scale: np.ndarray, angle: np.ndarray
) -> torch.Tensor:
    """Patches with mean zero and length one, (A, 256); flat ones are zero."""
    keypoints = Keypoints(torch.from_numpy(xy), torch.from_numpy(scale), torch.from_numpy(angle))
    frames = keypoints.frames() * (_PATCH_SCALE / 2)
    patches = images.cut(torch.from_numpy(image).long(), keypoints.xy, frames, 16).flatten(1)
    patches = patches - patches.mean(1, keepdim=True)
    return patches / patches.norm(dim=1, keepdim=True).clamp(min=1e-3)
