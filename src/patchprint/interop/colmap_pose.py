"""Absolute camera pose of an image in a COLMAP model, from keypoints with known 3D points."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common.types import Pose
from patchprint.interop.colmap_models import PIXEL_CENTER

MAX_ERROR = 12.0  # pixels, COLMAP's own limit for an image that it registers


@dataclass(frozen=True, eq=False)
class Localization:
    """An estimated camera pose.

    Shape:
        quaternion (4,) w, x, y, z and translation (3,) take world points to the camera, as COLMAP writes them; ``inliers`` (M,)
        bool says which of the M correspondences agree.
    """

    pose: Pose
    quaternion: np.ndarray
    translation: np.ndarray
    camera_model: str
    camera_params: list[float]
    inliers: np.ndarray


def point_ids_by_image(model: Any) -> dict[str, np.ndarray]:
    """Ids of the 3D points of all keypoints, (N,) int64, -1 for none, by name of the registered image."""
    ids = {}
    for image in model.images.values():
        if image.has_pose:
            owners = [point.point3D_id if point.has_point3D() else -1 for point in image.points2D]
            ids[image.name] = np.array(owners, np.int64)
    return ids


def positions(model: Any, ids: np.ndarray) -> np.ndarray:
    """Positions of 3D points by id, (M,) -> (M, 3)."""
    return np.array([model.points3D[int(number)].xyz for number in ids], np.float64).reshape(-1, 3)


def find_camera(path: Path, size: tuple[int, int], model: Any) -> tuple[Any, bool]:
    """The camera of an image, and whether its focal length is known.

    It is the camera of the model's images of this size, if they have a single one; else from EXIF; else COLMAP's guess.
    """
    from patchprint.interop.colmap_models import pycolmap

    same = [camera for camera in model.cameras.values() if (camera.width, camera.height) == size]
    if len(same) == 1:
        return same[0], True
    camera = pycolmap.infer_camera_from_image(path)
    return camera, camera.has_prior_focal_length


def estimate_pose(xy: np.ndarray, xyz: np.ndarray, camera: Any, is_known: bool, seed: int = 0) -> Localization | None:
    """Estimate the pose of a camera that sees the points ``xyz`` at ``xy``; None where no pose has enough inliers.

    Args:
        is_known: keep the focal length; otherwise it is estimated with the pose.

    Shape:
        xy (M, 2) in our convention, xyz (M, 3).
    """
    from patchprint.interop.colmap_models import pycolmap

    estimation = pycolmap.AbsolutePoseEstimationOptions(estimate_focal_length=not is_known)
    estimation.ransac.max_error = MAX_ERROR
    estimation.ransac.random_seed = seed
    refinement = pycolmap.AbsolutePoseRefinementOptions(
        refine_focal_length=not is_known, refine_extra_params=not is_known
    )
    found: Mapping[str, Any] | None = pycolmap.estimate_and_refine_absolute_pose(
        xy + PIXEL_CENTER, xyz, camera, estimation, refinement
    )
    if found is None:
        return None
    cam_from_world = found["cam_from_world"]
    rotation = np.asarray(cam_from_world.rotation.matrix())
    translation = np.asarray(cam_from_world.translation)
    x, y, z, w = cam_from_world.rotation.quat
    return Localization(
        Pose(rotation, -rotation.T @ translation),
        np.array([w, x, y, z]),
        translation,
        camera.model_name,
        [float(value) for value in camera.params],
        np.asarray(found["inlier_mask"], bool),
    )
