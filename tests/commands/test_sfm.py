"""``patchprint sfm``: from photos to a COLMAP model."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import pytest

from patchprint import cli
from patchprint.interop import colmap


@pytest.mark.slow
def test_sfm_compares_and_resumes(views: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["sfm", str(views), "--out", str(out), "--model", "sift", "--max-keypoints", "600", "--single-camera"]
    assert cli.main([*command, "--compare-sift", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert set(scores) == {"sift", "rootsift, same keypoints", "COLMAP SIFT"}
    assert scores["sift"]["registered"] == 3
    assert cv2.imread(str(out / "model.png")) is not None
    assert colmap.read_model(out / "model").num_points3D() == scores["sift"]["points"]
    assert cli.main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["sift"]["points"] == scores["sift"]["points"]
    assert cli.main([*command, "--ratio", "0.8"]) == 2
    assert "other inputs" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    assert cli.main(["sfm", str(views), "--out", str(tmp_path / "mine"), "--model", "sift", "--force"]) == 2
    assert (tmp_path / "mine" / "letter.txt").exists()
