"""Sparse models of COLMAP on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pycolmap")

from patchprint.interop.colmap_models import pycolmap
from patchprint.report.reconstruction import draw_model, models_table, name_of, scene_section
from patchprint.report.scenes import Scene


@pytest.fixture(scope="module")
def model() -> Any:
    pycolmap.set_random_seed(0)
    return pycolmap.synthesize_dataset(pycolmap.SyntheticDatasetOptions(num_points3D=300))


def test_points_and_cameras_of_a_model(model: Any, tmp_path: Path) -> None:
    draw_model(model, tmp_path / "model.png")
    (scene,) = scene_section(model, tmp_path / "model.png").parts
    assert isinstance(scene, Scene)
    assert len(scene.points) == model.num_points3D() and scene.colors.shape == (len(scene.points), 3)
    views = [model.images[number] for number in model.reg_image_ids()]
    assert list(scene.cameras.names) == [view.name for view in views]
    first, camera = views[0], model.cameras[views[0].camera_id]
    corner = first.cam_from_world() * scene.cameras.corners[0, 0]
    seen = camera.img_from_cam(corner / corner[2])
    plain = np.linalg.norm(seen) < 0.2 * camera.width
    assert plain, "the first corner is the top left of the image, up to distortion"
    assert np.allclose(scene.cameras.centers[0], first.projection_center())


def test_a_row_for_each_kind_of_descriptors() -> None:
    numbers = {
        "photos": 5, "registered": 4, "points": 1234, "observations": 5678, "track_length": 4.5,
        "reprojection_error_px": 0.61, "seconds": 2.0,
    }  # fmt: skip
    table = models_table({"ours": numbers})
    assert table.rows == [["ours", "4 of 5", "1,234", "5,678", "4.50", "0.610", "2.0"]]


def test_folders_with_plain_names_are_called_by_the_one_around(tmp_path: Path) -> None:
    assert name_of(tmp_path / "castle" / "images") == "castle"
    assert name_of(tmp_path / "castle") == "castle"
