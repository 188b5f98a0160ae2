"""``patchprint match``: two photos, or many from their features."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import pytest

from patchprint import cli
from patchprint.features.formats import read_matches
from patchprint.interop import colmap, hloc


def test_matching_many_and_mapping_what_came_out(described: Path, views: Path, tmp_path: Path) -> None:
    for name in ("m.h5", "m.db", "m.npz"):
        options = ["--mode", "mutual+ratio", "--ratio", "0.85"]
        assert cli.main(["match", str(described), "--out", str(tmp_path / name), *options]) == 0
    assert len(read_matches(tmp_path / "m.npz")) == 3
    assert len(hloc.read_matches(tmp_path / "m.h5", "view 0.png", "view 1.png")) > 30
    pycolmap = colmap.pycolmap
    with pycolmap.Database.open(tmp_path / "m.db") as store:
        assert store.num_matched_image_pairs() == store.num_verified_image_pairs() == 3
    options = pycolmap.IncrementalPipelineOptions(min_model_size=3)
    models = pycolmap.incremental_mapping(tmp_path / "m.db", views, tmp_path, options)
    assert models[0].num_reg_images() == 3


def test_pairs_by_rule(described: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rule, count in (("sequential", 2), ("retrieval", 2), ("exhaustive", 3)):
        command = ["match", str(described), "--pairs", rule, "--out", str(tmp_path / f"{rule}.npz"), "--json"]
        neighbors = [] if rule == "exhaustive" else ["--neighbors", "1"]
        assert cli.main([*command, *neighbors]) == 0
        assert json.loads(capsys.readouterr().out)["pairs"] == count


def test_pairs_from_a_file(described: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.txt").write_text("# two\nview 0.png\tview 1.png\n\nview 0.png\tview 2.png\n")
    command = [
        "match",
        str(described),
        "--pairs",
        str(tmp_path / "pairs.txt"),
        "--out",
        str(tmp_path / "m.npz"),
        "--json",
    ]
    assert cli.main(command) == 0
    assert json.loads(capsys.readouterr().out)["pairs"] == 2
    (tmp_path / "pairs.txt").write_text("view 0.png\tview 9.png\n")
    assert cli.main([*command, "--force"]) == 2
    assert "there is no photo view 9.png" in capsys.readouterr().err
    assert cli.main(["match", str(described)]) == 2
    assert "--out" in capsys.readouterr().err


def test_match_two_photos(views: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = [str(views / "view 0.png"), str(views / "view 1.png")]
    assert cli.main(["match", *pair, "--model", "rootsift", "--out", str(tmp_path / "m.png"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"model", "keypoints_a", "keypoints_b", "matches", "inliers", "seconds"} <= set(result)
    assert result["inliers"] > 50
    assert cv2.imread(str(tmp_path / "m.png")) is not None
    assert cli.main(["match", *pair, "--model", "rootsift", "--out", str(tmp_path / "m.png")]) == 2
    (tmp_path / "text.jpg").write_text("hello")
    assert cli.main(["match", pair[0], str(tmp_path / "text.jpg"), "--model", "rootsift"]) == 2
    assert "is not a picture" in capsys.readouterr().err
    assert cli.main(["match", *pair, "--model", "rotsift"]) == 2
