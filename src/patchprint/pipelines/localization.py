"""Camera pose of an image in a model that `patchprint.sfm` made."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common.errors import UserError
from patchprint.common.progress import progress
from patchprint.common.types import Features
from patchprint.features.extract import extract
from patchprint.interop import colmap_pose
from patchprint.interop.colmap_pose import Localization
from patchprint.matching import match
from patchprint.ops.distances import nearest
from patchprint.pipelines.sfm_folder import SfmFolder
from patchprint.storage import image_vectors

NEIGHBORS = 20  # images of the model that the new one is matched with
FEWEST_INLIERS = 15


@dataclass(frozen=True, eq=False)
class Localized:
    """The camera of a localized image, the number of its 2D-3D matches, and how many of them are inliers."""

    image: Path
    found: Localization
    matches: int
    inliers: int

    def to_json(self) -> dict[str, Any]:
        return {
            "image": str(self.image),
            "center": self.found.pose.center.tolist(),
            "rotation": self.found.pose.rotation.tolist(),
            "quaternion_wxyz": self.found.quaternion.tolist(),
            "translation": self.found.translation.tolist(),
            "camera": {"model": self.found.camera_model, "params": self.found.camera_params},
            "matches": self.matches,
            "inliers": self.inliers,
        }


def localize(
    image: str | Path, folder: str | Path, *, neighbors: int = NEIGHBORS, device: str = "auto", seed: int = 0
) -> Localized:
    """Estimate the camera pose of an image in a model.

    Args:
        image: file of the image.
        folder: output of `patchprint.sfm`; it is not changed.
        neighbors: images of the model that look most like this one, which it is matched with.

    Raises:
        UserError: where the image does not show the place of the model.
    """
    if neighbors < 1:
        raise UserError(f"an image needs at least 1 neighbor, got {neighbors}")
    scene, path = SfmFolder.open(folder), Path(image)
    features = extract(path, scene.describer(device), settings=scene.settings(device))
    keypoint, point = _correspondences(features, scene, neighbors, device, seed)
    camera, is_known = colmap_pose.find_camera(path, features.image_size, scene.model)
    xy = features.keypoints.xy.numpy()[keypoint].astype(np.float64)
    found = colmap_pose.estimate_pose(xy, colmap_pose.positions(scene.model, point), camera, is_known, seed)
    inliers = 0 if found is None else int(found.inliers.sum())
    if found is None or inliers < FEWEST_INLIERS:
        raise UserError(
            f"{path} could not be localized in {folder}: {inliers} of {len(point)} 2D-3D matches are inliers, {FEWEST_INLIERS} "
            "are needed; it may show another place"
        )
    return Localized(path, found, len(point), inliers)


def _correspondences(
    features: Features, scene: SfmFolder, neighbors: int, device: str, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Matches of keypoints of the image (M,) with ids of 3D points of the model (M,), without duplicates."""
    points_of = colmap_pose.point_ids_by_image(scene.model)
    names = _most_similar(features, [name for name in scene.features if name in points_of], scene, neighbors, seed)
    matches = []
    for name in progress(names, "matching", "image"):
        pairs = match(features, scene.features[name], device=device).indices.numpy()
        points = points_of[name][pairs[:, 1]]
        matches.append(np.stack([pairs[:, 0], points], 1)[points >= 0])
    table = np.unique(np.concatenate([np.zeros((0, 2), np.int64), *matches]), axis=0)
    return table[:, 0], table[:, 1]


def _most_similar(features: Features, names: list[str], scene: SfmFolder, neighbors: int, seed: int) -> list[str]:
    """Names of the images of the model that look most like this one."""
    if len(names) <= neighbors:
        return names
    known = image_vectors.load_or_compute(scene.features, seed, keep=False)
    rows = known.rows(names)
    _, index = nearest(known.pooling(features.descriptors)[None], known.vectors[rows], neighbors)
    return [names[number] for number in index[0].tolist()]
