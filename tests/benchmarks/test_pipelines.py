"""Whole pipelines on sequences and on photos with cameras: good ones score, constant ones do not, each place counts once."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint import cli
from patchprint.benchmarks import BENCHMARKS, PredictionCache
from patchprint.benchmarks._peers import PEERS
from patchprint.benchmarks.pipelines import KnownCameras, KnownHomography, find_scenes, score_pair
from patchprint.common.types import Features, Keypoints, Matches, ModelId
from support.benchmark_data import scores_of
from support.fake_models import ConstantModel
from support.scenes import Room
from support.two_cameras import INTRINSICS, RELATIVE_POSE, seen_by_two_cameras


def test_sequences(sequences: Path) -> None:
    good = scores_of("pipelines", "rootsift", sequences, keypoints=300)
    assert list(good["auc"]) == ["3 px", "5 px", "10 px"]
    assert good["precision"] > 0.8 and good["right"] > 30 and good["auc"]["3 px"] > 0.7
    assert good["num_pairs"] == 3 and set(good["scenes"]) == {"one", "two"}
    assert good["keypoints"] <= 300 and good["cpu_ms_per_image"] > 0
    poor = scores_of("pipelines", ConstantModel(), sequences, keypoints=300)
    assert poor["right"] < 3 and poor["auc"]["10 px"] < 0.1
    headline = BENCHMARKS["pipelines"]().headline(good)
    assert headline["right matches"] == good["right"] and headline["AUC 5 px"] == good["auc"]["5 px"]
    assert BENCHMARKS["pipelines"]().lower_is_better < set(headline)


def test_photos_with_cameras(tmp_path: Path) -> None:
    Room(views=3).write_with_cameras(tmp_path / "room")
    good = scores_of("pipelines", "rootsift", tmp_path / "room", keypoints=600)
    assert list(good["auc"]) == ["1 deg", "5 deg", "10 deg", "20 deg"]
    assert good["precision"] > 0.8 and good["right"] > 40 and good["auc"]["5 deg"] > 0.5
    poor = scores_of("pipelines", ConstantModel(), tmp_path / "room", keypoints=600)
    assert poor["auc"]["5 deg"] < 0.1 < good["auc"]["5 deg"]


def test_others_share_features_and_keep_matches(sequences: Path, tmp_path: Path) -> None:
    cache = PredictionCache(tmp_path / "cache")
    orb = PEERS["orb"]("cpu")
    first = scores_of("pipelines", orb, sequences, cache=cache, keypoints=300)
    assert first["pipeline"] == {"keypoints": "OpenCV ORB", "matches": "mutual nearest neighbors"}
    assert first["right"] > 10 and (cache.hits, cache.misses) == (0, 5 + 3)
    again = PredictionCache(tmp_path / "cache")
    assert scores_of("pipelines", orb, sequences, cache=again, keypoints=300) == first
    assert (again.hits, again.misses) == (5 + 3, 0)


def test_settings_reach_the_keypoints(sequences: Path) -> None:
    """Spreading decides which keypoints stay; a ratio of almost nothing leaves no match."""
    spread, strongest = (
        scores_of("pipelines", "rootsift", sequences, keypoints=60, spread=spread) for spread in (True, False)
    )
    assert spread["pairs"] != strongest["pairs"]
    assert "spread" in spread["pipeline"]["keypoints"] and "strongest" in strongest["pipeline"]["keypoints"]
    assert scores_of("pipelines", "rootsift", sequences, keypoints=60, ratio=0.01)["matches"] == 0
    with pytest.raises(ValueError, match="ratio must lie in"):
        scores_of("pipelines", "rootsift", sequences, ratio=7.0)
    with pytest.raises(ValueError, match="there is no detector 'dgo'; did you mean dog"):
        scores_of("pipelines", "rootsift", sequences, detector="dgo")


def test_rules_of_matching_share_features(sequences: Path, tmp_path: Path) -> None:
    cache = PredictionCache(tmp_path / "cache")
    both, one = (
        scores_of("pipelines", "rootsift", sequences, cache=cache, keypoints=200, matcher=mode)
        for mode in ("mutual+ratio", "mutual")
    )
    assert (cache.hits, cache.misses) == (5, 5 + 3 + 3)
    assert both["matches"] < one["matches"]
    assert both["pipeline"]["matches"] == "mutual nearest neighbors that pass the ratio test, ratio 0.8"
    assert one["pipeline"]["matches"] == "mutual nearest neighbors"
    with pytest.raises(ValueError, match="a ratio belongs to the matchers"):
        scores_of("pipelines", "rootsift", sequences, matcher="mutual", ratio=0.8)


def test_a_place_counts_once() -> None:
    """Two angles at one point are two keypoints, whose two matches say the same."""
    xy = torch.tensor([[10.0, 10], [10, 10], [40, 20], [70, 60]])
    keypoints = Keypoints(xy, torch.ones(4), torch.tensor([0.0, 1, 0, 0]))
    features = Features(keypoints, torch.zeros(4, 2), (100, 80), None, ModelId("made"))
    matches = Matches(torch.tensor([[0, 0], [1, 1], [2, 2], [3, 2]]), torch.zeros(4))
    scores = score_pair(features, features, matches, KnownHomography(np.eye(3)), px=3.0)
    assert (scores["matches"], scores["right"]) == (3, 2)
    none = dataclasses.replace(matches, indices=torch.zeros(0, 2, dtype=torch.int64), distance=torch.zeros(0))
    empty = score_pair(features, features, none, KnownHomography(np.eye(3)), px=3.0)
    assert empty == {"matches": 0, "right": 0, "precision": 0.0, "error": None}


def test_on_the_command_line(sequences: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Peers are named as models are; other benchmarks do not know them."""
    data = ["--data", str(sequences), "--sequences", "two"]
    out = ["--max-keypoints", "200", "--out", str(tmp_path), "--json"]
    assert cli.main(["eval", "pipelines", "--model", "orb", "--model", "rootsift", *data, *out]) == 0
    results = json.loads(capsys.readouterr().out)
    assert [result["model"]["name"] for result in results] == ["orb", "rootsift"]
    assert "patch_scale" not in results[0]["model"] and results[1]["model"]["patch_scale"] == 12.0
    assert (tmp_path / "pipelines" / f"{sequences.name}-orb.json").is_file()
    for wrong, message in (
        (["eval", "pipelines", "--model", "alikd", *data], "pipelines of others are opencv-sift, orb"),
        (
            ["eval", "pipelines", "--model", "orb", "--signs", *data],
            "describes no patches; leave --patch-scale",
        ),
        (["eval", "oxford", "--model", "opencv-sift", *data], "there is no model 'opencv-sift'"),
    ):
        assert cli.main(wrong) == 2
        assert message in capsys.readouterr().err


def test_scenes_are_found(sequences: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        Room(views=3).write_with_cameras(tmp_path / name)
    both, (one,) = find_scenes(tmp_path), find_scenes(tmp_path / "one")
    assert [scene.name for scene in both] == ["one", "two"]
    pairs = [("0000.png", "0001.png"), ("0000.png", "0002.png"), ("0001.png", "0002.png")]
    assert list(one.pairs) == list(both[0].pairs) == pairs
    assert [scene.name for scene in find_scenes(tmp_path, ("two",))] == ["two"]
    with pytest.raises(ValueError, match="has no scene three; it has one, two"):
        find_scenes(tmp_path, ("three",))
    planes = [(scene.name, list(scene.pairs)) for scene in find_scenes(sequences)]
    assert planes == [("one", [("1", "2"), ("1", "3")]), ("two", [("1", "2")])]


def test_damaged_scenes_are_one_sentence(tmp_path: Path) -> None:
    Room(views=2).write_with_cameras(tmp_path / "room")
    (tmp_path / "room" / "gt_dense_cameras" / "0001.png.camera").unlink()
    with pytest.raises(ValueError, match="has 1 images with a camera"):
        find_scenes(tmp_path / "room")
    (tmp_path / "room" / "K.txt").unlink()
    with pytest.raises(ValueError, match=r"has no K\.txt"):
        find_scenes(tmp_path / "room")
    with pytest.raises(ValueError, match="not a folder"):
        find_scenes(tmp_path / "nowhere")


def test_cameras_judge() -> None:
    a, b, matches = seen_by_two_cameras("general", 200, outliers=0.3, noise=0.2, seed=0)
    truth = KnownCameras(*RELATIVE_POSE, INTRINSICS)
    errors = truth.match_errors(*(points.double().numpy() for points in matches.points(a, b)))
    assert 0.6 < (errors < 3).mean() < 0.8
    error = truth.estimate_error(a, b, matches)
    assert error is not None and error < 2
    assert KnownCameras(np.eye(3), RELATIVE_POSE[1], INTRINSICS).estimate_error(a, b, matches) > 4  # type: ignore[operator]
