"""The picture of the README is drawn from results/."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.made_runs import bench_result, oxford_result
from tools import speed_accuracy


def test_the_picture_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checksum = oxford_result("one", 0.7)["model"]["sha256"]
    timed = {"patchprint one": {"best_ms": 400.0, "sha256": checksum}, "kornia HardNet": {"best_ms": 1500.0}}
    for name, content in ((speed_accuracy.SPEED, bench_result(timed)), ("oxford/one.json", oxford_result("one", 0.7))):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(json.dumps(content))
    monkeypatch.setattr(sys, "argv", ["speed_accuracy", "--results", str(tmp_path)])
    assert speed_accuracy.main() == 0
    text = (tmp_path / speed_accuracy.PICTURE).read_text()
    assert ">one<" in text and "HardNet" not in text
