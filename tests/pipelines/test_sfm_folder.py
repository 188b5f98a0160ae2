"""A folder that ``patchprint sfm`` made grows into another one, and stays as it is."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from patchprint import cli
from patchprint.interop.colmap_models import poses_of_model, read_model
from patchprint.pipelines import sfm_folder
from patchprint.pipelines.sfm_folder import SfmFolder, recorded_calls


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_photos_are_added_to_a_model(
    room_photos: Path, room_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, out = contents(room_model), tmp_path / "grown"
    command = ["sfm", str(room_photos), "--into", str(room_model), "--out", str(out), "--single-camera", "--json"]
    assert cli.main(command) == 0
    answer = capsys.readouterr()
    result = json.loads(answer.out)
    assert "describing 1 images with rootsift" in answer.err and "matching 3 pairs" in answer.err
    assert result["scores"]["rootsift"]["registered"] == 4
    assert contents(room_model) == before, "the model that was there is untouched, and nothing lies beside it"
    old, new = (poses_of_model(read_model(folder / "model")) for folder in (room_model, out))
    for name, pose in old.items():
        assert np.allclose(pose.center, new[name].center) and np.allclose(pose.rotation, new[name].rotation)
    assert len(read_model(out / "model").cameras) == 1
    assert sorted(SfmFolder.open(out).features) == [f"view-{number}.png" for number in range(4)]
    assert cli.main(command) == 0, "a second call finds everything done"
    assert json.loads(capsys.readouterr().out)["scores"]["rootsift"]["points"] == result["scores"]["rootsift"]["points"]
    assert (out / "points.ply").read_bytes().startswith(b"ply")


@pytest.mark.parametrize(
    ("photos", "flags", "message"),
    [
        ("three", [], "are in the model"),
        ("all", ["--model", "sift"], "were described with model rootsift, not sift; leave --model out"),
        ("all", ["--mapper", "global"], "leave --mapper out"),
        ("all", ["--refine"], "leave --refine out"),
        ("renamed", [], "has another image view-0.png"),
    ],
)
def test_what_cannot_be_added_is_said_before_work_begins(
    photos: str,
    flags: list[str],
    message: str,
    room_photos: Path,
    room_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "renamed").mkdir()
    shutil.copy(room_photos / "view-3.png", tmp_path / "renamed" / "view-0.png")
    folder = tmp_path / photos if photos == "renamed" else room_photos.parent / photos
    out = tmp_path / "out"
    assert cli.main(["sfm", str(folder), "--into", str(room_model), "--out", str(out), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_refined_views_agree_better_and_a_second_call_changes_nothing(
    room_photos: Path, room_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "refined"
    shutil.copytree(room_model, out)
    command = ["sfm", str(room_photos.parent / "three"), "--out", str(out), "--single-camera", "--model", "rootsift"]
    command += ["--max-keypoints", "500", "--refine"]
    assert cli.main(command) == 0
    assert "are aligned with others of their points" in capsys.readouterr().err
    before, after = (read_model(folder / "model") for folder in (room_model, out))
    dropped = before.compute_num_observations() - after.compute_num_observations()
    assert 0 <= dropped < 0.01 * before.compute_num_observations(), "those that stay far from their points"
    assert after.compute_mean_reprojection_error() < 0.7 * before.compute_mean_reprojection_error()
    assert cli.main(command) == 0
    again = read_model(out / "model")
    assert again.compute_mean_reprojection_error() == pytest.approx(after.compute_mean_reprojection_error(), rel=0.01)


def test_unfinished_folders_and_other_weights_are_refused(room_model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(room_model, copy)
    manifest = copy / "features" / "features.json"
    manifest.write_text(manifest.read_text().replace('"sha256": ""', '"sha256": "abc"'))
    with pytest.raises(ValueError, match="other weights named 'rootsift'"):
        SfmFolder.open(copy).describer()
    (copy / "model" / "database.db").unlink()
    with pytest.raises(ValueError, match=r"model/database\.db is missing"):
        SfmFolder.open(copy)


def test_calls_that_are_killed_count_with_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed call ends nothing: what is in the file while it runs is what stays."""
    monkeypatch.setattr(sfm_folder, "_SECONDS", 0.01)
    path = tmp_path / "calls.json"
    with recorded_calls(path, time.monotonic() - 60):
        deadline = time.monotonic() + 30
        first = json.loads(path.read_text())["calls"]
        while json.loads(path.read_text())["calls"] == first and time.monotonic() < deadline:
            time.sleep(0.01)
        (killed,) = json.loads(path.read_text())["calls"]
    assert killed["seconds"] > first[0]["seconds"] >= 60
    with recorded_calls(path, time.monotonic()) as calls:
        assert len(calls) == 2 and calls[0]["seconds"] >= killed["seconds"]
