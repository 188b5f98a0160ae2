"""The table of pipelines: best first, times as multiples; that of the choice of keypoints: loss by loss."""

from __future__ import annotations

import json
from pathlib import Path

from tools.pipeline_tables import keypoint_choice, pipelines


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


def test_what_is_left_of_keypoints(tmp_path: Path) -> None:
    rules = {
        rule: {"right": right, "AUC 3 px": right / 100, "AUC 10 deg": right / 200}
        for rule, right in (("mutual", 60.2), ("mutual+ratio", 40), ("fginn", 50))
    }
    kind = {"places": 90.0, "inside": 80.0, "repeated": 70.4, **rules, "pairs": 3}
    (tmp_path / "experiments").mkdir()
    for name, found in (("keypoint-choice", "dog"), ("keypoint-choice-hessian", "hessian")):
        made = {"model": {"name": "tiny"}, "scores": {found: {"warped": kind, "real": kind}}}
        (tmp_path / "experiments" / f"{name}.json").write_text(json.dumps(made))
    lines = keypoint_choice(tmp_path).splitlines()
    numbers = "| 90 | 80 | 70 | 60 | 40 | 50 | 60 | 40 | 50 | 0.400 | 0.500 | 0.200 | 0.250 |"
    assert lines[2:4] == [f"| dog {numbers}", f"| hessian {numbers}"]
    assert lines[0].count("|") == lines[2].count("|")
    assert lines[-1].startswith("`tiny`, means of 3 warped and 3 real pairs")
