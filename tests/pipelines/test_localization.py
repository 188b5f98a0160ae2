"""A photo is found in a model of other photos of the same place, and not in one of another place."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint import cli
from patchprint.interop.colmap_models import poses_of_model, read_model
from patchprint.metrics.geometry import camera_errors
from patchprint.pipelines.localization import localize
from pipelines.conftest import ROOM
from support.known_images import texture


def truth() -> dict:
    return {f"view-{number}.png": pose for number, (_, pose) in enumerate(ROOM.photos())}


def test_a_photo_that_is_new_to_the_model(room_photos: Path, room_model: Path) -> None:
    found = localize(room_photos / "view-3.png", room_model)
    assert found.inliers > 50
    errors = camera_errors(
        {**poses_of_model(read_model(room_model / "model")), "view-3.png": found.found.pose}, truth()
    )
    assert errors["cameras"] == 4 and errors["position"]["max"] < 0.05
    other, true = poses_of_model(read_model(room_model / "model"))["view-2.png"], truth()
    turn = found.found.pose.rotation @ other.rotation.T
    assert np.allclose(turn, true["view-3.png"].rotation @ true["view-2.png"].rotation.T, atol=0.02)


def test_the_command_prints_a_pose_and_writes_nothing(
    room_photos: Path, room_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in room_model.rglob("*")}
    photo = str(room_photos / "view-1.png")
    assert cli.main(["localize", photo, str(room_model), "--json", "--neighbors", "2"]) == 0
    result = json.loads(capsys.readouterr().out)
    known = poses_of_model(read_model(room_model / "model"))["view-1.png"]
    assert np.allclose(result["center"], known.center, atol=0.05)
    assert np.allclose(result["rotation"], known.rotation, atol=0.01)
    assert cli.main(["localize", photo, str(room_model)]) == 0
    assert "matches with points of the model agree" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in room_model.rglob("*")} == before


def test_a_photo_of_another_place_is_refused(
    room_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cv2.imwrite(str(tmp_path / "other.png"), texture(300, 400, seed=9))
    assert cli.main(["localize", str(tmp_path / "other.png"), str(room_model)]) == 2
    assert "could not be localized" in capsys.readouterr().err
    assert cli.main(["localize", str(tmp_path / "other.png"), str(tmp_path)]) == 2
    assert "holds no finished model of patchprint sfm" in capsys.readouterr().err
    assert cli.main(["localize", str(tmp_path / "other.png"), str(room_model), "--neighbors", "0"]) == 2
