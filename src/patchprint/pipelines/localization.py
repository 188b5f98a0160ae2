"""One photo in a model that ``patchprint sfm`` made: where it was taken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.common.errors import UserError
from patchprint.common.progress import progress
from patchprint.features.extract import extract
from patchprint.interop import colmap_pose
from patchprint.interop.colmap_pose import Localization
from patchprint.matching import match
from patchprint.ops.distances import nearest
from patchprint.pipelines.sfm_folder import SfmFolder
from patchprint.storage import image_vectors
from patchprint.types import Features

NEIGHBORS = 20  # photos of the model that the new one is matched with
FEWEST_INLIERS = 15


@dataclass(frozen=True, eq=False)
class Localized:
    """A photo that was found: its camera, how many correspondences with points of the model it has, and how many agree."""

    image: Path
    found: Localization
    matches: int
    inliers: int

    def to_json(self) -> dict[str, Any]:
        return {
            "photo": str(self.image),
            "center": self.found.pose.center.tolist(),
            "rotation": self.found.pose.rotation.tolist(),
            "quaternion_wxyz": self.found.quaternion.tolist(),
            "translation": self.found.translation.tolist(),
            "camera": {"model": self.found.camera_model, "params": self.found.camera_params},
            "matches": self.matches,
            "inliers": self.inliers,
        }


def localize(
    image: str | Path,
    folder: str | Path,
    neighbors: int = NEIGHBORS,
    device: str = "cpu",
    seed: int = 0,
) -> Localized:
    """Find a photo in the model of ``folder``, or raise UserError where it does not show the same place.

    Args:
        folder: what ``patchprint sfm`` wrote; nothing in it is changed.
        neighbors: photos of the model that look most like it, which it is matched with.
    """
    if neighbors < 1:
        raise UserError(f"a photo needs at least 1 neighbor, got {neighbors}")
    scene, path = SfmFolder.open(folder), Path(image)
    settings = scene.settings(device)
    features = extract(
        path,
        scene.describer(device),
        max_keypoints=settings.max_keypoints,
        upright=settings.upright,
        detector=settings.detector,
        spread=settings.spread,
        exif=settings.exif,
    )
    keypoint, point = _correspondences(features, scene, neighbors, device, seed)
    camera, is_known = colmap_pose.camera_of(path, features.image_size, scene.model)
    xy = features.keypoints.xy.numpy()[keypoint].astype(np.float64)
    found = colmap_pose.estimate_pose(xy, colmap_pose.positions(scene.model, point), camera, is_known, seed)
    inliers = 0 if found is None else int(found.inliers.sum())
    if found is None or inliers < FEWEST_INLIERS:
        raise UserError(
            f"{path} could not be found in {folder}: {inliers} of {len(point)} matches with its points agree, and "
            f"{FEWEST_INLIERS} are needed; it may show another place"
        )
    return Localized(path, found, len(point), inliers)


def _correspondences(
    features: Features, scene: SfmFolder, neighbors: int, device: str, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Keypoints of the photo (M,) and ids of points of the model (M,), each couple once."""
    points_of = colmap_pose.known_points(scene.model)
    names = _alike(features, [name for name in scene.features if name in points_of], scene, neighbors, seed)
    couples = []
    for name in progress(names, "matching", "photo"):
        pairs = match(features, scene.features[name], device=device).indices.numpy()
        points = points_of[name][pairs[:, 1]]
        couples.append(np.stack([pairs[:, 0], points], 1)[points >= 0])
    table = np.unique(np.concatenate([np.zeros((0, 2), np.int64), *couples]), axis=0)
    return table[:, 0], table[:, 1]


def _alike(features: Features, names: list[str], scene: SfmFolder, neighbors: int, seed: int) -> list[str]:
    """The photos of the model that look most like this one."""
    if len(names) <= neighbors:
        return names

    known = image_vectors.of(scene.features, seed, keep=False)
    rows = known.rows(names)
    _, index = nearest(known.pooling(features.descriptors)[None], known.vectors[rows], neighbors)
    return [names[number] for number in index[0].tolist()]
