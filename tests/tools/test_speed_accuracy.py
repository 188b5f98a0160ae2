"""The picture of speed and accuracy: who is in it, and that it is drawn."""

from __future__ import annotations

import json
from pathlib import Path

from tools import speed_accuracy


def write(path: Path, content: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def test_those_with_both_numbers_of_the_same_weights_are_drawn(tmp_path: Path) -> None:
    timed = {
        "patchprint one": {"best_ms": 400.0, "sha256": "aa"},
        "patchprint one, int8": {"best_ms": 100.0, "sha256": "aa"},
        "patchprint one, float32": {"best_ms": 900.0, "sha256": "aa"},
        "patchprint trained again": {"best_ms": 300.0, "sha256": "bb"},
        "OpenCV SIFT": {"best_ms": 90.0},
        "kornia HardNet": {"best_ms": 1500.0},
    }
    write(tmp_path / speed_accuracy.SPEED, {"scores": {"keypoints": {"contenders": timed}}})
    for name, checksum, score in (("one", "aa", 0.7), ("trained again", "cc", 0.8), ("sift", "", 0.5)):
        write(tmp_path / "oxford" / f"{name}.json", {"model": {"sha256": checksum}, "scores": {"map": score}})
    shown = speed_accuracy.points(tmp_path)
    assert [(point.model, point.engine, point.milliseconds, point.score) for point in shown] == [
        ("one", "", 400.0, 0.7),
        ("one", "int8", 100.0, 0.7),
        ("sift", "", 90.0, 0.5),
    ]
    speed_accuracy.draw(shown, tmp_path / "picture.svg")
    text = (tmp_path / "picture.svg").read_text()
    assert ">one<" in text and ">sift<" in text and "again" not in text
