"""The table of pipelines: best first, times as multiples."""

from __future__ import annotations

import json
from pathlib import Path

from tools.pipeline_tables import pipelines


def save(folder: Path, name: str, area: float, milliseconds: float) -> None:
    scores = {
        "pipeline": {"keypoints": f"found by {name}; described", "matches": "mutual"},
        "right": 10.4, "precision": 0.5, "auc": {"3 px": area / 2, "5 px": area}, "keypoints": 99.6,
        "cpu_ms_per_image": milliseconds, "cpu_ms_per_pair": 2 * milliseconds,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / f"made-{name}.json").write_text(json.dumps({"model": {"name": name}, "scores": scores}))


def test_best_first_and_times_as_multiples(tmp_path: Path) -> None:
    save(tmp_path / "pipelines", "opencv-sift", 0.4, 10.0)
    save(tmp_path / "pipelines", "other", 0.6, 25.0)
    lines = pipelines("made", "5 px", "Made")(tmp_path).splitlines()
    assert lines[0] == (
        "|  | keypoints | matches | right | precision | AUC 3 px | AUC 5 px | time an image | time a pair |"
    )
    assert lines[2:4] == [
        "| `other` | found by other (100) | mutual | 10 | 0.50 | 0.300 | 0.600 | 2.5 | 2.5 |",
        "| `opencv-sift` | found by opencv-sift (100) | mutual | 10 | 0.50 | 0.200 | 0.400 | 1 | 1 |",
    ]
    assert lines[-1] == "Made: results/pipelines/."
