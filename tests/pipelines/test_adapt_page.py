"""The report of ``patchprint adapt``."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pycolmap")

from patchprint.common.provenance import Result
from patchprint.interop.colmap_models import pycolmap
from patchprint.pipelines.adapt_judge import VERDICTS
from patchprint.pipelines.adapt_page import page
from patchprint.pipelines.adaptation import SFM
from patchprint.report.page import render
from patchprint.report.scenes import Scene
from support.made_runs import made_cost, write_run


def result(photos: Path) -> Result:
    scores = {name: {"inliers": value} for name, value in (("start", 20.0), ("tuned", 41.25), ("sift", 10.0))}
    return Result(
        "adapt",
        settings={},
        model={"name": "tuned", "sha256": "", "start": "sdgmnet", "verdict": "gained"},
        data={
            "path": str(photos),
            "photos": 20,
            "held_out_photos": 2,
            "points": 5000,
            "pairs": 6,
        },
        seed=0,
        scores=scores,
        run=made_cost("patchprint adapt images"),
    )


def test_the_verdict_comes_first_and_the_scene_is_there_where_it_is_known(tmp_path: Path) -> None:
    write_run(tmp_path / "work" / "training", recipe="sdgmnet")
    bare = page(result(tmp_path / "castle" / "images"), tmp_path / "my tuned.safetensors", tmp_path / "work")
    assert bare.title == "A descriptor tuned to castle"
    assert bare.verdict == VERDICTS["gained"]
    assert "The scene it learned from" not in [section.heading for section in bare.sections]
    (tmp_path / "work" / SFM / "sparse").mkdir(parents=True)
    pycolmap.set_random_seed(0)
    model = pycolmap.synthesize_dataset(pycolmap.SyntheticDatasetOptions(num_points3D=100))
    model.write(tmp_path / "work" / SFM / "sparse")
    made = page(result(tmp_path / "castle"), tmp_path / "my tuned.safetensors", tmp_path / "work")
    assert any(isinstance(part, Scene) for section in made.sections for part in section.parts)
    text = render(made)
    assert "41.2" in text and "in 6 pairs of images" in text and "patchprint adapt images" in text
    assert f"--model &#39;{tmp_path}/my tuned.safetensors&#39;" in text, "the command works as it stands"
