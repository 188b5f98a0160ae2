"""Reconstruction of a made room, compared with its true cameras; and the parts of that comparison."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from patchprint.benchmarks.cache import PredictionCache
from patchprint.benchmarks.setup import Setup
from patchprint.features.describers import create

from benchmark_data import texture, write_room
from patchprint.benchmarks import eth, strecha
from patchprint.provenance import sha256_of_folder


def random_poses(count: int, seed: int) -> dict[str, strecha.Pose]:
    rng = np.random.default_rng(seed)
    rotations = [cv2.Rodrigues(rng.normal(size=3))[0] for _ in range(count)]
    return {str(i): strecha.Pose(rotation, rng.normal(size=3)) for i, rotation in enumerate(rotations)}


def test_a_similarity_does_not_count_as_error() -> None:
    truth = random_poses(5, seed=0)
    turn, shift, scale = cv2.Rodrigues(np.array([0.3, -1.0, 2.0]))[0], np.array([4.0, 5, 6]), 0.2
    # The same cameras in another world: X' = scale * turn @ X + shift.
    moved = {n: strecha.Pose(p.rotation @ turn.T, scale * turn @ p.center + shift) for n, p in truth.items()}
    errors = strecha.camera_errors(moved, truth)
    assert errors["cameras"] == 5
    assert errors["position"]["max"] < 1e-5
    assert errors["rotation_degrees"]["max"] < 1e-3


def test_a_turned_camera_is_noticed() -> None:
    truth = random_poses(5, seed=1)
    ten_degrees = cv2.Rodrigues(np.radians([10.0, 0, 0]))[0]
    wrong = {**truth, "2": strecha.Pose(ten_degrees @ truth["2"].rotation, truth["2"].center)}
    errors = strecha.camera_errors(wrong, truth)["rotation_degrees"]
    assert errors["max"] == pytest.approx(10.0, abs=1e-3)
    assert errors["median"] == pytest.approx(0.0, abs=1e-3)


def test_room_is_reconstructed_and_measured(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap")
    write_room(tmp_path / "room")
    before = sha256_of_folder(tmp_path / "room")
    cache = PredictionCache(tmp_path / "cache")
    settings = eth.Settings(keypoints=1000)
    scores = eth.evaluate(Setup(create("rootsift"), tmp_path / "room", cache=cache), settings)
    for part in (scores, scores["colmap_sift"]):
        assert part["registered"] == part["photos"] == 4
        assert part["points"] > 100
        assert part["against_true_cameras"]["rotation_degrees"]["max"] < 0.5
        assert part["against_true_cameras"]["position"]["max"] < 0.03
        assert part["inlier_pairs"] == 6
    assert scores["observations"] == pytest.approx(scores["points"] * scores["track_length"], rel=1e-3)
    assert str(scores["dense_points"]).startswith("not run") or scores["dense_points"] > 0
    assert sha256_of_folder(tmp_path / "room") == before
    again = PredictionCache(tmp_path / "cache")
    assert eth.evaluate(Setup(create("rootsift"), tmp_path / "room", cache=again), settings) == scores
    assert again.misses == 0


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    for number in range(2):
        cv2.imwrite(str(tmp_path / f"{number}.png"), texture(64, 64, number))
    with pytest.raises(ValueError, match="holds 2 photos; a reconstruction needs at least 3"):
        eth.evaluate(Setup(create("sift"), tmp_path), eth.Settings())
    (tmp_path / "2.png").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"2\.png"):
        eth.evaluate(Setup(create("sift"), tmp_path), eth.Settings())
    setup = Setup(create("sift"), tmp_path, skip_bad=True)
    with pytest.raises(ValueError, match="holds 2 photos"):
        eth.evaluate(setup, eth.Settings())
    assert setup.skipped == ["2.png"]
    (tmp_path / "x.camera").write_text("1 2 3")
    with pytest.raises(ValueError, match="is not a camera file"):
        strecha.read_cameras(tmp_path)
