"""``patchprint match``: two photos, or many from their features."""

import json
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint import cli
from patchprint.cli import match as command_match, match_many
from patchprint.interop import colmap_models, hloc
from patchprint.storage import match_formats
from patchprint.storage.match_folder import read_matches


def test_matching_many_and_mapping_what_came_out(described: Path, views: Path, tmp_path: Path) -> None:
    for name in ("m.h5", "m.db", "m.npz"):
        options = ["--matcher", "mutual+ratio", "--ratio", "0.85"]
        assert cli.main(["match", str(described), "--out", str(tmp_path / name), *options]) == 0
    assert len(read_matches(tmp_path / "m.npz")) == 3
    assert len(hloc.read_matches(tmp_path / "m.h5", "view 0.png", "view 1.png")) > 30
    pycolmap = colmap_models.pycolmap
    with pycolmap.Database.open(tmp_path / "m.db") as store:
        assert store.num_matched_image_pairs() == store.num_verified_image_pairs() == 3
    options = pycolmap.IncrementalPipelineOptions(min_model_size=3)
    models = pycolmap.incremental_mapping(tmp_path / "m.db", views, tmp_path, options)
    assert models[0].num_reg_images() == 3


def test_pairs_by_rule(described: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rule, count in (("sequential", 2), ("retrieval", 3), ("exhaustive", 3)):
        command = ["match", str(described), "--pairs", rule, "--out", str(tmp_path / f"{rule}.npz"), "--json"]
        neighbors = [] if rule == "exhaustive" else ["--neighbors", "1"]
        assert cli.main([*command, *neighbors]) == 0
        assert json.loads(capsys.readouterr().out)["pairs"] == count


def test_pairs_from_a_file(described: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.txt").write_text("# two\nview 0.png\tview 1.png\n\nview 0.png\tview 2.png\n")
    command = ["match", str(described), *f"--pairs {tmp_path}/pairs.txt --out {tmp_path}/m.npz --json".split()]
    assert cli.main(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["pairs"] == 2 and result["verdicts"] == {"same": 2, "unsure": 0}
    (tmp_path / "pairs.txt").write_text("view 0.png\tview 9.png\n")
    assert cli.main([*command, "--force"]) == 2
    assert "there is no image view 9.png" in capsys.readouterr().err
    assert cli.main(["match", str(described)]) == 2
    assert "--out" in capsys.readouterr().err


def test_match_two_photos(views: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = [str(views / "view 0.png"), str(views / "view 1.png")]
    assert cli.main(["match", *pair, "--model", "rootsift", "--out", str(tmp_path / "m.png"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"model", "keypoints_a", "keypoints_b", "matches", "inliers", "seconds"} <= set(result)
    assert result["inliers"] > 50
    assert len(result["points_a"]) == len(result["points_b"]) == result["matches"]
    assert cv2.imread(str(tmp_path / "m.png")) is not None
    assert cli.main(["match", *pair, "--model", "rootsift", "--out", str(tmp_path / "m.png")]) == 2


def test_masks_leave_keypoints_out(views: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = [str(views / "view 0.png"), str(views / "view 1.png")]
    mask = np.zeros(cv2.imread(pair[0], 0).shape, np.uint8)
    mask[:, :60] = 255
    cv2.imwrite(str(tmp_path / "view 0.png.png"), mask)
    command = ["match", *pair, "--model", "rootsift", "--json"]
    assert cli.main([*command, "--masks", str(tmp_path)]) == 0
    masked = json.loads(capsys.readouterr().out)
    assert masked["points_a"] and max(x for x, _ in masked["points_a"]) < 60
    assert cli.main(command) == 0
    assert json.loads(capsys.readouterr().out)["keypoints_b"] == masked["keypoints_b"]
    assert cli.main([*command, "--masks", str(views.parent)]) == 2
    assert "holds no mask of view 0.png or view 1.png" in capsys.readouterr().err


def test_both_photos_are_read_before_the_first_is_described(
    views: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_match, "describe_found", None)
    (tmp_path / "text.jpg").write_text("hello")
    assert cli.main(["match", str(views / "view 0.png"), str(tmp_path / "text.jpg"), "--model", "rootsift"]) == 2
    assert "is not an image" in capsys.readouterr().err
    same = [str(views / "view 0.png")] * 2
    assert cli.main(["match", *same, "--model", "rootsift", "--out", str(tmp_path / "m.db")]) == 2
    assert "no matches of an image with itself" in capsys.readouterr().err


def test_many_are_checked_before_the_work(
    described: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(match_many, "match_folder", None)
    for options, message in (
        (["--out", str(tmp_path / "m.png")], "matches of many images are written as .npz"),
        (["--out", str(tmp_path / "m.h5"), "--pairs", "nothing.txt"], "text file with two names per line"),
    ):
        assert cli.main(["match", str(described), *options]) == 2
        assert message in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert cli.main(["match", str(described), "--out", str(tmp_path / "m.h5")]) == 2
    assert "pip install 'patchprint[sfm]'" in capsys.readouterr().err


def test_one_output_that_fails_leaves_the_others(
    described: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setitem(match_formats.FORMATS, ".csv", match_formats.MatchFormat("a table", full))
    outs = [tmp_path / "m.csv", tmp_path / "m.npz"]
    assert cli.main(["match", str(described), *(word for out in outs for word in ("--out", str(out)))]) == 1
    said = capsys.readouterr()
    assert "3 pairs of 3 images" in said.out and "disk full" in said.err
    assert len(read_matches(tmp_path / "m.npz")) == 3


def test_both_halves_have_help(described: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["match", "--help"]) == 0
    two = capsys.readouterr().out
    assert "--detector" in two and "--pairs" not in two and "{nearest,mutual,ratio,mutual+ratio,fginn,graph}" in two
    assert cli.main(["match", str(described), "--help"]) == 0
    many = capsys.readouterr().out
    assert "--pairs" in many and "--detector" not in many
