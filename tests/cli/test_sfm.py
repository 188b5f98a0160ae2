"""``patchprint sfm``: from photos to a COLMAP model."""

import json
import shutil
import sys
from pathlib import Path

import cv2
import pytest

from patchprint import cli
from patchprint.interop import colmap_models
from support.known_images import texture, write_textures


def test_a_single_camera_takes_images_of_one_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """First hour: "COLMAP cannot read 1.png; convert it to JPEG or PNG", after all images were described and matched."""
    write_textures(tmp_path / "images", 3, 60, 80)
    cv2.imwrite(str(tmp_path / "images" / "1.png"), texture(60, 81))
    images, out = str(tmp_path / "images"), str(tmp_path / "out")
    for command in (["sfm", images, "--out", out], ["data", "build", "photos", images, out]):
        assert cli.main([*command, "--single-camera"]) == 2
        expected = "1.png has 81x60 pixels and the others 80x60, but a single camera takes images of one size"
        assert expected in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_sfm_writes_a_model_and_resumes(views: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["sfm", str(views), "--out", str(out), "--model", "sift", "--max-keypoints", "600", "--single-camera"]
    assert cli.main([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["scores"]["sift"]["registered"] == 3 and len(result["calls"]) == 1
    assert result["settings"]["matcher"] == "mutual+ratio" and result["settings"]["single_camera"]
    assert cv2.imread(str(out / "model.png")) is not None
    page = (out / "report.html").read_text()
    assert "3 of 3 images were registered" in page and 'class="scene"' in page
    assert colmap_models.read_model(out / "model").num_points3D() == result["scores"]["sift"]["points"]
    assert cli.main([*command, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["scores"]["sift"]["points"] == result["scores"]["sift"]["points"]
    assert again["calls"][0] == result["calls"][0] and len(again["calls"]) == 2
    seconds = sum(call["seconds"] for call in again["calls"])
    assert again["scores"]["sift"]["seconds"] == pytest.approx(seconds, abs=0.01)
    assert cli.main([*command, "--ratio", "0.7"]) == 2
    assert "other inputs" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    assert cli.main(["sfm", str(views), "--out", str(tmp_path / "mine"), "--model", "sift", "--force"]) == 2
    assert (tmp_path / "mine" / "letter.txt").exists()


def test_without_pycolmap_there_is_one_sentence_and_no_work(
    views: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    assert cli.main(["sfm", str(views), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "patchprint: this needs the package 'pycolmap': pip install 'patchprint[sfm]'\n"
    assert not (tmp_path / "out").exists()


def test_a_bad_photo_is_named_and_left_out_and_pairs_are_chosen(
    views: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = tmp_path / "photos"
    shutil.copytree(views, photos)
    (photos / "broken.png").write_bytes(b"no picture")
    command = ["sfm", str(photos), "--model", "rootsift", "--max-keypoints", "400", "--single-camera", "--json"]
    assert cli.main([*command, "--out", str(tmp_path / "strict"), "--strict"]) == 2
    assert "broken.png is not an image" in capsys.readouterr().err
    out = tmp_path / "out"
    assert cli.main([*command, "--out", str(out), "--pairs", "retrieval", "--neighbors", "2"]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert "left out: " in said.err and "broken.png" in said.err
    for stage in ("1/3  describing 4 images", "2/3  matching 3 pairs", "3/3  COLMAP"):
        assert stage in said.err
    assert result["data"]["left_out"] == ["broken.png"] and result["settings"]["pairs"] == "retrieval"
    assert result["scores"]["rootsift"]["registered"] == 3
    header = (out / "points.ply").read_bytes()[:400].decode(errors="replace")
    assert header.startswith("ply") and f"element vertex {result['scores']['rootsift']['points']}" in header
