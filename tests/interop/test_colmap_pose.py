"""A camera is found again from the points that it sees."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint.interop import colmap_models, colmap_pose
from patchprint.interop.colmap_models import pycolmap
from support.small_sfm import write_model

SIZE = (640, 480)


@pytest.fixture
def seen() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points (200, 3), where a camera of focal length 500 sees them (in our convention), its rotation and its center."""
    rng = np.random.default_rng(0)
    xyz = rng.uniform((-2, -2, 6), (2, 2, 10), (200, 3))
    rotation, center = cv2.Rodrigues(np.array([0.1, -0.2, 0.3]))[0], np.array([0.5, -0.3, 1.0])
    in_camera = (xyz - center) @ rotation.T
    xy = 500 * in_camera[:, :2] / in_camera[:, 2:] + (320, 240) - 0.5
    return xyz, xy, rotation, center


@pytest.mark.parametrize("is_known", [True, False])
def test_the_pose_and_with_it_an_unknown_focal_length(seen: tuple[np.ndarray, ...], is_known: bool) -> None:
    xyz, xy, rotation, center = seen
    wrong = xy.copy()
    wrong[:40] = np.random.default_rng(1).uniform(0, 400, (40, 2))
    camera = pycolmap.Camera.create_from_model_name(1, "SIMPLE_PINHOLE", 500.0 if is_known else 900.0, *SIZE)
    found = colmap_pose.estimate_pose(wrong, xyz, camera, is_known)
    assert found is not None
    assert np.allclose(found.pose.center, center, atol=1e-3) and np.allclose(found.pose.rotation, rotation, atol=1e-3)
    assert np.allclose(found.pose.rotation @ center + found.translation, 0, atol=1e-3)
    matrix = pycolmap.Rotation3d(found.quaternion[[1, 2, 3, 0]]).matrix()
    assert np.allclose(matrix, found.pose.rotation), "w comes first"
    assert found.inliers[40:].all() and found.inliers[:40].sum() < 5
    assert found.camera_params == pytest.approx([500, 320, 240], rel=1e-3)


def test_points_that_fit_no_camera_give_none(seen: tuple[np.ndarray, ...]) -> None:
    camera = pycolmap.Camera.create_from_model_name(1, "SIMPLE_PINHOLE", 500.0, *SIZE)
    assert colmap_pose.estimate_pose(seen[1][:2], seen[0][:2], camera, True) is None


def test_points_of_keypoints_and_the_camera_of_a_size(tmp_path: Path) -> None:
    write_model(tmp_path, images=3, with_database=False)
    model = colmap_models.read_model(tmp_path)
    owners = colmap_pose.point_ids_by_image(model)
    assert sorted(owners) == [f"photo{number}.png" for number in range(3)]
    image = next(image for image in model.images.values() if image.name == "photo0.png")
    row = int(np.flatnonzero(owners["photo0.png"] >= 0)[0])
    assert image.points2D[row].point3D_id == owners["photo0.png"][row]
    assert np.allclose(
        colmap_pose.positions(model, owners["photo0.png"][[row]])[0], model.points3D[image.points2D[row].point3D_id].xyz
    )
    photo = tmp_path / "images" / "photo0.png"
    camera, is_known = colmap_pose.find_camera(photo, (200, 160), model)
    assert is_known and camera.model_name == "PINHOLE"
    camera, is_known = colmap_pose.find_camera(photo, (300, 100), model)
    assert not is_known and camera.model_name == "SIMPLE_RADIAL"
