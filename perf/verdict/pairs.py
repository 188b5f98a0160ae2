"""Match pairs of images of the same and of different places in several ways, with the ground truth.

    python -m perf.verdict.pairs fit --data ../shared/data     # how many there are

A pair shows the same place where the images share points of a COLMAP model (``SHARED`` or more), or where a homography or true
cameras join them; different places where their towns differ (`perf.verdict.drawn_images`). All others are left out. A geometry
is *right* if at least ``RIGHT_SHARE`` of its inliers agree with the truth within ``PIXELS``: through the true homography, or
from the epipolar line of the true cameras.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from patchprint.common.types import Features, Matches, Pose
from patchprint.interop.colmap_models import PIXEL_CENTER, poses_of_model, read_model
from patchprint.interop.sequences import read_sequence
from patchprint.interop.strecha import read_cameras, read_intrinsics
from patchprint.matching import match
from patchprint.ops.geometry import epipolar_errors, project
from perf.verdict.drawn_images import DEFAULT, DESCRIBED, SPLITS, DrawnImage, draw

Way = tuple[str, int, str]
MODES: tuple[str, ...] = ("mutual+ratio", "mutual")
WAYS: list[Way] = [(model, count, mode) for model, counts in DESCRIBED.items() for count in counts for mode in MODES]
DEFAULT_WAY: Way = (*DEFAULT, "mutual+ratio")
SHARED = 15
PIXELS, RIGHT_SHARE = 4.0, 0.8

# Errors in pixels of matched points (M, 2), (M, 2) against the truth of their pair, (M,).
Truth = Callable[[np.ndarray, np.ndarray], np.ndarray]
Pair = tuple[DrawnImage, DrawnImage, Truth | None]  # no truth: different places


@dataclass(frozen=True)
class MatchedPair:
    """Two images, matched in one way."""

    photos: tuple[DrawnImage, DrawnImage]
    way: Way
    a: Features
    b: Features
    matches: Matches
    truth: Truth | None

    @property
    def same(self) -> bool:
        return self.truth is not None

    def is_right(self, found: Matches) -> bool:
        """Whether a geometry of these matches is that of the place."""
        if self.truth is None or found.inliers is None or not found.num_inliers:
            return False
        rows_a, rows_b = found.indices[found.inliers].numpy().T
        xy_a, xy_b = (features.keypoints.xy.double().numpy() for features in (self.a, self.b))
        return bool(np.mean(self.truth(xy_a[rows_a], xy_b[rows_b]) <= PIXELS) >= RIGHT_SHARE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("split", choices=SPLITS)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    photos = draw(arguments.split, arguments.data)
    same, different = same_place(photos, arguments.data), different_places(photos)
    print(f"{len(photos)} photos: {len(same)} pairs of the same place, {len(different)} of different places")


def matched_pairs(
    pairs: list[Pair], data: Path, cache: Path, ways: int, rng: np.random.Generator, also: tuple[Way, ...] = ()
) -> Iterator[MatchedPair]:
    """Each pair in some of the ways, drawn for it, and in those that are named."""
    for first, second, truth in tqdm(pairs, unit="pair", disable=None):
        drawn = [WAYS[index] for index in rng.permutation(len(WAYS))[:ways]]
        for model, count, mode in (*drawn, *also):
            a, b = (photo.features(data, cache, model, count) for photo in (first, second))
            yield MatchedPair((first, second), (model, count, mode), a, b, match(a, b, mode), truth)


def different_places(photos: list[DrawnImage]) -> list[Pair]:
    return [
        (one, other, None) for one, other in itertools.combinations(photos, 2) if one.scene.town != other.scene.town
    ]


def same_place(photos: list[DrawnImage], data: Path) -> list[Pair]:
    """All pairs of the images that show the same place, with what is known of them."""
    pairs: list[Pair] = []
    for scene in dict.fromkeys(photo.scene for photo in photos):
        here = [photo for photo in photos if photo.scene is scene]
        folder = data / scene.folder
        if scene.has_model:
            pairs += _pairs_of_model(here, folder)
        elif (folder / "H1to2p").is_file():
            homographies = read_sequence(folder).homographies
            by_number = {int(photo.name.removeprefix("img").split(".")[0]): photo for photo in here}
            for (i, one), (j, other) in itertools.combinations(sorted(by_number.items()), 2):
                between = homographies[j] @ np.linalg.inv(homographies.get(i, np.eye(3)))
                pairs.append((one, other, functools.partial(_homography_errors, between)))
        else:
            poses = read_cameras(folder / "gt_dense_cameras")
            intrinsics = read_intrinsics(folder / "K.txt")
            assert intrinsics is not None
            rays = functools.partial(_rays, np.array(intrinsics))
            for one, other in itertools.combinations(here, 2):
                truth = functools.partial(
                    _camera_errors, (poses[one.name], poses[other.name]), (rays, rays), intrinsics[0]
                )
                pairs.append((one, other, truth))
    return pairs


def _pairs_of_model(photos: list[DrawnImage], folder: Path) -> list[Pair]:
    model = read_model(folder)
    poses = poses_of_model(model)
    images = {image.name: image for image in model.images.values() if image.name in poses}
    points = {
        name: {point.point3D_id for point in image.points2D if point.has_point3D()} for name, image in images.items()
    }
    pairs: list[Pair] = []
    for one, other in itertools.combinations([photo for photo in photos if photo.name in images], 2):
        if len(points[one.name] & points[other.name]) >= SHARED:
            cameras = [model.cameras[images[photo.name].camera_id] for photo in (one, other)]
            rays = tuple(functools.partial(_rays_of_camera, camera) for camera in cameras)
            focal = float(np.mean([camera.mean_focal_length() for camera in cameras]))
            pairs.append(
                (one, other, functools.partial(_camera_errors, (poses[one.name], poses[other.name]), rays, focal))
            )
    return pairs


def _homography_errors(homography: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.linalg.norm(project(homography, a) - b, axis=1)


def _camera_errors(
    poses: tuple[Pose, Pose], rays: tuple[Any, ...], focal: float, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    pose_a, pose_b = poses
    turn = pose_b.rotation @ pose_a.rotation.T
    x, y, z = pose_b.rotation @ (pose_a.center - pose_b.center)
    essential = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ turn
    return focal * epipolar_errors(essential, rays[0](a), rays[1](b))


def _rays(intrinsics: np.ndarray, xy: np.ndarray) -> np.ndarray:
    return (xy - intrinsics[2:]) / intrinsics[:2]


def _rays_of_camera(camera: Any, xy: np.ndarray) -> np.ndarray:
    rays = np.asarray(camera.cam_from_img(xy + PIXEL_CENTER))
    return rays[:, :2] if rays.shape[1] == 2 else rays[:, :2] / rays[:, 2:]


if __name__ == "__main__":
    main()
