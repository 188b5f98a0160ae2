"""The report of ``patchprint sfm``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pycolmap")

from patchprint.common.table import Table
from patchprint.interop.colmap_models import pycolmap, read_model
from patchprint.pipelines.sfm_folder import MODEL
from patchprint.pipelines.sfm_page import page
from patchprint.report.page import render
from patchprint.report.scenes import Scene, draw_model
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


def test_the_page_answers_first_and_has_the_scene_and_all_calls(out: Path) -> None:
    calls = [made_cost("patchprint sfm photos"), made_cost("patchprint sfm photos --workers 2")]
    result = {
        "settings": {"model": "sift"},
        "data": {"path": "photos/<b>castle", "left_out": ["bad.jpg"]},
        "scores": {"sift": NUMBERS},
        "run": calls[-1],
        "calls": calls,
    }
    (out / "summary.json").write_text(json.dumps(result))
    made = page(out, read_model(out / MODEL / "sparse"))
    assert made.title == "<b>castle in 3D" and made.verdict.startswith("4 of 5 images were registered")
    (scene,) = (part for section in made.sections for part in section.parts if isinstance(part, Scene))
    assert len(scene.points) == 100
    (cost,) = (part for part in made.sections[-1].parts if isinstance(part, Table))
    assert len(cost.rows) == 3 and cost.rows[-1][0] == "all"
    text = render(made)
    assert "<b>" not in text and "bad.jpg" in text and "patchprint sfm photos --workers 2" in text
