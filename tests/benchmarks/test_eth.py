"""Reconstruction of a made room, compared with its true cameras; and the parts of that comparison."""

from pathlib import Path

import cv2
import pytest

from patchprint.benchmarks import PredictionCache
from patchprint.common.provenance import sha256_of_folder
from patchprint.interop import strecha
from support.benchmark_data import scores_of
from support.known_images import texture
from support.scenes import Room


def test_room_is_reconstructed_and_measured(tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("patchprint.interop.colmap_models").pycolmap
    Room().write_with_cameras(tmp_path / "room")
    before = sha256_of_folder(tmp_path / "room")
    cache = PredictionCache(tmp_path / "cache")
    scores = scores_of("eth", "rootsift", tmp_path / "room", cache=cache, keypoints=1000)
    for part in (scores, scores["colmap_sift"]):
        assert part["registered"] == part["photos"] == 4
        assert part["points"] > 100
        assert part["against_true_cameras"]["rotation_degrees"]["max"] < 0.5
        assert part["against_true_cameras"]["position"]["max"] < 0.03
        assert part["inlier_pairs"] == 6
    assert scores["observations"] == pytest.approx(scores["points"] * scores["track_length"], rel=1e-3)
    assert scores["observations"] <= scores["keypoints"]
    if pycolmap.has_cuda:
        assert scores["dense_points"] > 0
    else:
        assert scores["dense_points"].startswith("not run")
    assert sha256_of_folder(tmp_path / "room") == before
    again = PredictionCache(tmp_path / "cache")
    assert scores_of("eth", "rootsift", tmp_path / "room", cache=again, keypoints=1000) == scores
    assert again.misses == 0


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    for number in range(2):
        cv2.imwrite(str(tmp_path / f"{number}.png"), texture(64, 64, number))
    with pytest.raises(ValueError, match="holds 2 images; a reconstruction needs at least 3"):
        scores_of("eth", "sift", tmp_path)
    (tmp_path / "x.camera").write_text("1 2 3")
    with pytest.raises(ValueError, match="is not a camera file"):
        strecha.read_cameras(tmp_path)
