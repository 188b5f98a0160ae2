"""The report of ``patchprint sfm``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pycolmap")

from patchprint.common.table import Table
from patchprint.interop.colmap_models import pycolmap
from patchprint.pipelines.sfm_folder import MODEL
from patchprint.pipelines.sfm_page import page
from patchprint.report.page import render
from patchprint.report.reconstruction import draw_model
from patchprint.report.scenes import Scene
from support.made_runs import made_cost

NUMBERS = {
    "photos": 5, "registered": 4, "points": 1234, "observations": 5678, "track_length": 4.5, "reprojection_error_px": 0.61,
    "seconds": 2.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``patchprint sfm`` leaves: a model and its picture."""
    folder = tmp_path_factory.mktemp("out")
    pycolmap.set_random_seed(0)
    model = pycolmap.synthesize_dataset(pycolmap.SyntheticDatasetOptions(num_points3D=100))
    (folder / MODEL / "sparse").mkdir(parents=True)
    model.write(folder / MODEL / "sparse")
    draw_model(model, folder / "model.png")
    return folder


def result(**scores: Any) -> dict[str, Any]:
    return {
        "settings": {"model": "sift"},
        "data": {"path": "photos/<b>castle", "left_out": ["bad.jpg"]},
        "scores": scores,
        "run": made_cost("patchprint sfm photos"),
    }


def test_the_page_answers_first_and_has_the_scene(out: Path) -> None:
    made = page(result(sift=NUMBERS), out)
    assert made.title == "<b>castle in 3D" and made.verdict.startswith("4 of 5 photos found their place")
    (scene,) = (part for section in made.sections for part in section.parts if isinstance(part, Scene))
    assert len(scene.points) == 100
    text = render(made)
    assert "<b>" not in text and "bad.jpg" in text and "patchprint sfm photos" in text


def test_true_cameras_have_a_table_of_their_own(out: Path) -> None:
    known = {
        "cameras": 4,
        "rotation_degrees": {"median": 0.1, "max": 0.2},
        "position": {"median": 0.01, "max": 0.02},
    }
    scores = {
        "sift": {**NUMBERS, "against_true_cameras": known},
        "other": {**NUMBERS, "against_true_cameras": {"cameras": 2}},
    }
    first = page(result(**scores), out).sections[0]
    _, truth = (part for part in first.parts if isinstance(part, Table))
    assert truth.rows == [["sift", "4", "0.1", "0.2", "0.01", "0.02"], ["other", "2", "–", "–", "–", "–"]]
