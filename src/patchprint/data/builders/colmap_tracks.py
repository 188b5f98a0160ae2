"""Tracks from a COLMAP model and its images, with more views than SIFT matched if asked for (densification).

A network trained on tracks made by SIFT learns little more than SIFT recognizes. The model knows where each point is in every
registered image. A keypoint there is a further view if its position, scale (by the depth) and angle (by the camera's
rotation) agree, the surface is not hidden, and its patch correlates with the nearest view of the track.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common import files
from patchprint.common.errors import require
from patchprint.common.progress import progress
from patchprint.common.types import Keypoints
from patchprint.data import manifest, track_files
from patchprint.data.builders.sfm_scene import (
    SfmScene,
    detect_keypoints,
    find_images,
    frames_from_database,
    frames_from_detection,
    read_scene,
)
from patchprint.data.image_bank import StreamedImages
from patchprint.data.tracks import Tracks
from patchprint.interop.images import read_gray

# Largest differences of an added view from its prediction.
_MAX_PX, _MAX_OCTAVES, _MAX_RADIANS = 1.5, 0.33, 0.33
_MAX_RAY_DEGREES = 35.0  # to the nearest ray of the track
_MIN_CORRELATION = 0.3  # with the nearest view of the track
# The depth of a surface is known from so many observed points within so many pixels; relative difference to it.
_SURFACE_POINTS, _SURFACE_PX, _MAX_DEPTH_DIFFERENCE = 4, 50.0, 0.05
_PATCH_SCALE = 12.0
_CACHE_BYTES = 1 << 30


def build(
    src: str | Path,
    out: str | Path,
    *,
    images: str | Path | None = None,
    sparse: str | Path | None = None,
    database: str | Path | None = None,
    densify: bool = False,
    patch_scale: float = 12.0,
    max_mb: float | None = None,
    scene_name: str | None = None,
    strict: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """A COLMAP model and its images.

    Args:
        src: folder with images/, sparse/ and, if it can be had, database.db.
        out: store to write.
        images: where the images are, if not in images/ of the folder.
        sparse: where the model is, if not in sparse/ of the folder.
        database: the database with the keypoints, if not database.db in the folder.
        densify: add views that SIFT did not match but the model predicts.
        patch_scale: side of a patch in sigma.
        max_mb: encode the images again until they take no more megabytes than this; no limit if not given.
        scene_name: what the scene is called in the store, if not like the folder.
        strict: stop at the first image that is missing, cannot be read or was resized; by default it is named and left out.
        force: replace the store if it exists.

    Returns:
        How many views densification added (0 without it).
    """
    files.check_output_folder(out, manifest.MADE_BY, force)
    track_files.check_numbers(patch_scale, max_mb)
    root = Path(src)
    scene = read_scene(Path(sparse) if sparse else root)
    scene, paths = find_images(scene, Path(images) if images else root / "images", strict)
    store = Path(database) if database else root / "database.db"
    if store.is_file() or database:
        scale, angle = frames_from_database(scene, store)
    else:
        scale, angle = frames_from_detection(scene, paths)
    known = scene.seen_twice(scale > 0)
    scene = scene.select(known)
    columns = {
        "image": scene.image,
        "xy": scene.xy,
        "scale": scale[known],
        "angle": angle[known],
        "point": scene.point,
    }
    added = 0
    if densify:
        more = _added_views(scene, columns, paths)
        columns = {name: np.concatenate([values, more[name]]) for name, values in columns.items()}
        added = len(more["point"])
    tracks = Tracks.from_observations(**columns, xyz=scene.xyz[columns["point"]])
    names = track_files.Names(scene.names, [scene_name or root.resolve().name])
    facts = {"added_views": added}
    encoded = (path.read_bytes() for path in paths)
    track_files.write(out, encoded, tracks, names, patch_scale=patch_scale, max_mb=max_mb, facts=facts, force=force)
    return facts


def _added_views(scene: SfmScene, seen: dict[str, np.ndarray], paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Return views that the observations ``seen`` of ``scene`` lack, in the same columns: image, xy, scale, angle, point."""
    start = np.flatnonzero(np.r_[True, np.diff(scene.point) > 0])
    rays, widths, tips = _appearance(scene, seen["scale"], seen["angle"])
    size = np.exp(np.add.reduceat(np.log(widths), start) / np.diff(np.r_[start, len(scene.point)]))
    parts = []
    for image, path in enumerate(progress(paths, "densifying", "image")):
        here = scene.image == image
        unseen = np.ones(len(scene.xyz), bool)
        unseen[scene.point[here]] = False
        points = _visible(scene, image, np.flatnonzero(unseen), scene.point[here], scene.xy[here])
        cosine, reference = _nearest_view(scene, image, points, rays, start)
        close = cosine >= np.cos(np.radians(_MAX_RAY_DEGREES))
        if close.any():
            keypoints = detect_keypoints(path)
            parts.append(_matching_keypoints(scene, image, points[close], reference[close], size, tips, keypoints))
    if not parts:
        return {name: values[:0] for name, values in seen.items()}
    added = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    row = added.pop("reference")
    images = StreamedImages(len(paths), lambda number: read_gray(paths[number]), cache_bytes=_CACHE_BYTES)
    nearest = {name: values[row] for name, values in seen.items()}
    alike = (_unit_patches(images, added) * _unit_patches(images, nearest)).sum(1).numpy() >= _MIN_CORRELATION
    return {name: values[alike] for name, values in added.items()}


def _appearance(scene: SfmScene, scale: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rays, sizes and directions of all observations.

    Returns:
        Unit ray from the point to the camera (V, 3), sigma in world units (V,), and a world point (V, 3) one sigma away from
        the point in the direction of the keypoint's angle.
    """
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


def _visible(scene: SfmScene, image: int, points: np.ndarray, seen: np.ndarray, seen_xy: np.ndarray) -> np.ndarray:
    """Return those of ``points`` that lie in the image and on the surface that the image's own points show there."""
    camera = scene.images[image].camera
    xy, depth = scene.project(image, scene.xyz[points])
    inside = (xy > 0).all(1) & (xy < (camera.width - 1, camera.height - 1)).all(1)
    points, xy, depth = points[inside], xy[inside], depth[inside]
    if len(points) == 0 or len(seen) < _SURFACE_POINTS:
        return points[:0]
    surface = scene.project(image, scene.xyz[seen])[1]
    distance, index = _tree(seen_xy).query(xy, k=_SURFACE_POINTS, distance_upper_bound=_SURFACE_PX)
    near = np.isfinite(distance)
    ratio = depth[:, None] / surface[np.where(near, index, 0)]
    # Every neighbor must agree: beside a depth edge one cannot know what is seen.
    agrees = ((ratio > 1 - _MAX_DEPTH_DIFFERENCE) & (ratio < 1 + _MAX_DEPTH_DIFFERENCE)) | ~near
    return points[agrees.all(1) & near[:, 0]]


def _nearest_view(
    scene: SfmScene, image: int, points: np.ndarray, rays: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosine to the nearest ray of each point's track, and the observation it belongs to."""
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
) -> dict[str, np.ndarray]:
    """Assign each point the best keypoint that agrees; a keypoint goes to one point only.

    Returns:
        Columns of observations, and as "reference" the observation (A,) of the nearest view.
    """
    xy, depth = scene.project(image, scene.xyz[points])
    expected_scale = size[points] * scene.images[image].camera.mean_focal_length() / depth
    direction = scene.project(image, tips[reference])[0] - xy
    expected_angle = np.arctan2(direction[:, 1], direction[:, 0])
    places = keypoints.xy.numpy()
    nearby = _tree(xy).sparse_distance_matrix(_tree(places), _MAX_PX, output_type="ndarray")
    point_row, keypoint, offset = nearby["i"], nearby["j"], nearby["v"]
    octaves = np.abs(np.log2(keypoints.scale.numpy()[keypoint] / expected_scale[point_row]))
    turn = np.abs(np.angle(np.exp(1j * (keypoints.angle.numpy()[keypoint] - expected_angle[point_row]))))
    agrees = (octaves <= _MAX_OCTAVES) & (turn <= _MAX_RADIANS)
    cost = (offset / _MAX_PX + octaves / _MAX_OCTAVES + turn / _MAX_RADIANS)[agrees]
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
    found = keypoints[keypoint[chosen]]
    return {
        "image": np.full(len(chosen), image),
        "point": points[point_row[chosen]],
        **{name: getattr(found, name).numpy() for name in ("xy", "scale", "angle")},
        "reference": reference[point_row[chosen]],
    }


def _unit_patches(images: StreamedImages, views: dict[str, np.ndarray]) -> torch.Tensor:
    """Cut patches of 16 x 16 with mean zero and length one, (A, 256); flat ones are zero."""
    keypoints = Keypoints(*(torch.from_numpy(views[name]) for name in ("xy", "scale", "angle")))
    frames = keypoints.frames() * (_PATCH_SCALE / 2)
    patches = images.cut(torch.from_numpy(views["image"]).long(), keypoints.xy, frames, 16).flatten(1)
    patches = patches - patches.mean(1, keepdim=True)
    return patches / patches.norm(dim=1, keepdim=True).clamp(min=1e-3)
