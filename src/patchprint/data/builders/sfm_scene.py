"""A COLMAP model as plain arrays: images, cameras, points and observations, with scale and angle of every keypoint.

A model holds only positions. Scale and angle come from the database that it was made from (same images, same indices); where
there is none, keypoints are detected again and the one nearest to an observation lends its frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchprint.common.errors import UserError, parsing
from patchprint.common.progress import progress, skip_or_raise
from patchprint.common.safe_io import safe_join
from patchprint.common.types import Keypoints
from patchprint.detectors import detect
from patchprint.interop import colmap_models
from patchprint.interop.images import read_gray

# Detectors agree to a fraction of a pixel where they find the same blob.
NEAREST_PX = 2.0
SAME_INDEX_PX = 1.0


@dataclass(frozen=True, eq=False)
class SfmScene:
    """The registered images of a model and what was seen in them; positions in our convention (pixel center at 0).

    Shape:
        names (I,), images (I,) of pycolmap; image (V,), index (V,) of the keypoint, xy (V, 2), point (V,) row of xyz;
        xyz (N, 3). Rows are ordered by point.
    """

    names: list[str]
    images: list[Any]
    image: np.ndarray
    index: np.ndarray
    xy: np.ndarray
    point: np.ndarray
    xyz: np.ndarray

    def project(self, image: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return positions (M, 2) and depths (M,) of world points (M, 3) in an image; nan behind the camera."""
        posed = self.images[image]
        in_camera = posed.cam_from_world() * points.astype(np.float64).reshape(-1, 3)
        depth = in_camera[:, 2]
        ahead = depth > 1e-9
        xy = np.full((len(points), 2), np.nan)
        if ahead.any():
            xy[ahead] = np.asarray(posed.camera.img_from_cam(in_camera[ahead])) - colmap_models.PIXEL_CENTER
        return xy, np.where(ahead, depth, np.nan)

    def seen_twice(self, rows: np.ndarray) -> np.ndarray:
        """Return those of the observations ``rows`` (V,) bool whose point keeps at least two of them, (V,) bool."""
        return rows & (np.bincount(self.point[rows], minlength=len(self.xyz))[self.point] >= 2)

    def select(self, rows: np.ndarray) -> SfmScene:
        """Return the scene with only the observations ``rows`` (V,) bool, and the points that they show."""
        if not rows.any():
            raise UserError("no point of the model is seen in two images with a keypoint of known scale")
        kept, dense = np.unique(self.point[rows], return_inverse=True)
        image, index, xy = (values[rows] for values in (self.image, self.index, self.xy))
        return SfmScene(self.names, self.images, image, index, xy, dense, self.xyz[kept])

    def with_images(self, kept: Sequence[int]) -> SfmScene:
        """Return the scene with only these images, by number, and the points that two of them show."""
        if len(kept) == len(self.names):
            return self
        number = np.full(len(self.names), -1)
        number[kept] = np.arange(len(kept))
        scene = self.select(self.seen_twice(number[self.image] >= 0))
        names, images = [self.names[i] for i in kept], [self.images[i] for i in kept]
        return replace(scene, names=names, images=images, image=number[scene.image])


def read_scene(model_folder: Path) -> SfmScene:
    """Read the points seen in at least two images, with one observation per image."""
    model = colmap_models.read_model(model_folder)
    images = sorted((posed for posed in model.images.values() if posed.has_pose), key=lambda posed: posed.name)
    row_of = {posed.image_id: row for row, posed in enumerate(images)}
    points = sorted(model.points3D.items())
    if not points:
        raise UserError(f"{model_folder} holds no 3D points")
    triples = []
    for number, (_, point) in enumerate(points):
        for element in point.track.elements:
            if element.image_id not in row_of:
                raise UserError(f"a track of {model_folder} names image {element.image_id}, which is not there")
            triples.append((number, row_of[element.image_id], element.point2D_idx))
    if not triples:
        raise UserError(f"{model_folder} holds no 3D points that an image shows")
    table = np.unique(np.array(triples, np.int64), axis=0)
    first = np.r_[True, (np.diff(table[:, :2], axis=0) != 0).any(1)]
    table = table[first]
    positions = [np.array([p.xy for p in posed.points2D], np.float64).reshape(-1, 2) for posed in images]
    point, image, index = table.T
    xy = np.stack([positions[p][i] for p, i in zip(image, index, strict=True)]) - colmap_models.PIXEL_CENTER
    xyz = np.stack([np.asarray(point.xyz) for _, point in points])
    scene = SfmScene([posed.name for posed in images], images, image, index, xy, point, xyz)
    with parsing(model_folder, "a model with tracks"):
        return scene.select(scene.seen_twice(np.ones(len(point), bool)))


def find_images(scene: SfmScene, folder: Path, strict: bool = False) -> tuple[SfmScene, list[Path]]:
    """Return the scene without images that cannot be used, and the files of the others.

    An image must exist, be readable and have the size of its camera. Others are named and left out; with ``strict`` the first
    is an error.
    """
    paths = [safe_join(folder, name, "the model") for name in scene.names]
    if not any(path.is_file() for path in paths):
        raise UserError(f"{folder} holds none of the {len(paths)} images of the model, such as {scene.names[0]}")
    kept = []
    for number, (path, image) in enumerate(zip(paths, scene.images, strict=True)):
        camera = image.camera
        try:
            if not path.is_file():
                raise UserError(f"{path} is missing, but the model has tracks in it")
            height, width = read_gray(path).shape
            if (width, height) != (camera.width, camera.height):
                raise UserError(
                    f"{path} is {width}x{height}, but its camera in the model is {camera.width}x{camera.height}; "
                    "the image was resized after the model was made"
                )
            kept.append(number)
        except (UserError, OSError) as error:
            skip_or_raise(error, strict)
    return scene.with_images(kept), [paths[number] for number in kept]


def frames_from_database(scene: SfmScene, database: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return scale (V,) and angle (V,) of every observation from the keypoints of the database."""
    stored = {entry.name: entry.keypoints for entry in colmap_models.read_database(database)}
    scale, angle = np.zeros(len(scene.xy)), np.zeros(len(scene.xy))
    for image, name in enumerate(scene.names):
        rows = np.flatnonzero(scene.image == image)
        if len(rows) == 0:
            continue
        keypoints = stored.get(name)
        if keypoints is None or scene.index[rows].max() >= len(keypoints):
            raise UserError(f"{database} has no keypoints for the tracks in {name}; it belongs to another model")
        chosen = keypoints[scene.index[rows]]
        away = np.abs(chosen.xy.numpy() - scene.xy[rows]).max()
        if away > SAME_INDEX_PX:
            raise UserError(f"{database} and the model disagree by {away:.0f} px in {name}; take those of one run")
        scale[rows], angle[rows] = chosen.scale.numpy(), chosen.angle.numpy()
    return scale, angle


def frames_from_detection(scene: SfmScene, paths: Sequence[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Return scale (V,) and angle (V,) of the detected keypoint nearest to each observation; zero scale if none is near."""
    scale, angle = np.zeros(len(scene.xy)), np.zeros(len(scene.xy))
    for image, path in enumerate(progress(paths, "detecting", "image")):
        rows = np.flatnonzero(scene.image == image)
        keypoints = detect_keypoints(path)
        if len(rows) == 0 or len(keypoints) == 0:
            continue
        distance, nearest = torch.cdist(torch.from_numpy(scene.xy[rows]).float(), keypoints.xy).min(1)
        near = distance.numpy() <= NEAREST_PX
        scale[rows] = np.where(near, keypoints.scale[nearest].numpy(), 0.0)
        angle[rows] = keypoints.angle[nearest].numpy()
    return scale, angle


def detect_keypoints(path: Path) -> Keypoints:
    """Detect all keypoints, with a threshold as low as COLMAP's."""
    return detect(read_gray(path), "dog", max_keypoints=None, spread=False)
