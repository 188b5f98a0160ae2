"""Sparse models on a page: points and cameras as the viewer gets them, upright, near 0, bounded."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchprint.report import scenes
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.scenes import Scene, draw_model, scene_section

IMAGE = EmbeddedImage.from_pixels(np.zeros((2, 2), np.uint8), "an image")


def scene(points: np.ndarray, count: int = 3) -> Scene:
    """Cameras beside each other at z = -5, looking along +z as COLMAP's do: x to the right, y down."""
    centers = np.array([[float(i), 0.0, -5.0] for i in range(count)]).reshape(-1, 3)
    corners = np.array([(-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1)], float)
    colors = np.full((len(points), 3), 200, np.uint8)
    return Scene(points, colors, [f"{i}.jpg" for i in range(count)], centers, centers[:, None] + corners, IMAGE)


def positions(data: dict[str, Any]) -> np.ndarray:
    packed = np.frombuffer(base64.b64decode(data["positions"]), "<i2").reshape(-1, 3)
    return packed * data["unit"]


def test_what_is_up_in_the_images_is_up_in_the_viewer() -> None:
    cloud = np.random.default_rng(0).normal(size=(500, 3))
    cloud = np.concatenate([cloud, [[1.0, -3.0, 0.0]]])  # above, since y points down
    found = positions(scene(cloud).data())
    assert found[-1, 1] > 0.5 and abs(np.median(found[:, 1])) < 0.05
    frusta = np.array(scene(cloud).data()["frusta"]).reshape(3, 5, 3)
    assert (frusta[:, 0, 2] > 1).all(), "cameras are before the scene, toward the reader"
    assert (frusta[:, 1:3, 1] > frusta[:, 3:, 1]).all(), "upper corners are up"
    distances = np.linalg.norm(cloud - np.median(cloud, 0), axis=1)
    expected = distances[0] / np.quantile(distances, 0.95)
    assert np.linalg.norm(found[0]) == pytest.approx(expected, abs=1e-3), "only turned, moved and scaled"


def test_points_are_bounded_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "MOST_POINTS", 100)
    monkeypatch.setattr(scenes, "MOST_CAMERAS", 2)
    many = scene(np.random.default_rng(0).normal(size=(1000, 3)))
    data = many.data()
    assert len(positions(data)) == 100 and len(base64.b64decode(data["colors"])) == 300
    assert data["names"] == ["0.jpg", "1.jpg"] and len(data["frusta"]) == 2 * 15
    assert many.note().startswith("100 of 1,000 points, a random sample") and "2 of 3 cameras" in many.note()


def test_points_far_outside_do_not_hide_the_others() -> None:
    cloud = np.concatenate([np.random.default_rng(0).normal(size=(500, 3)), [[1e6, 0, 0]]])
    found = scene(cloud)
    assert len(positions(found.data())) == 500
    assert found.note().startswith("500 of 501 points, without those far outside")
    assert scene(cloud[:500]).note().startswith("500 of 500 points, and 3 of 3 cameras.")


def test_points_and_cameras_of_a_model(tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("pycolmap")
    pycolmap.set_random_seed(0)
    model = pycolmap.synthesize_dataset(pycolmap.SyntheticDatasetOptions(num_points3D=300))
    draw_model(model, tmp_path / "model.png")
    (found,) = scene_section(model, tmp_path / "model.png").parts
    assert isinstance(found, Scene)
    assert len(found.points) == model.num_points3D() and found.colors.shape == (len(found.points), 3)
    views = [model.images[number] for number in model.reg_image_ids()]
    assert list(found.names) == [view.name for view in views]
    first, camera = views[0], model.cameras[views[0].camera_id]
    corner = first.cam_from_world() * found.corners[0, 0]
    seen = camera.img_from_cam(corner / corner[2])
    plain = np.linalg.norm(seen) < 0.2 * camera.width
    assert plain, "the first corner is the top left of the image, up to distortion"
    assert np.allclose(found.centers[0], first.projection_center())
