"""Many photos: describing, resuming, formats, matching, and the commands on top."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint import cli
from patchprint.features import storage
from patchprint.features.formats import read_matches
from patchprint.interop import colmap, hloc, opencv_files
from support.known_images import texture
from support.three_views import write_views


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all") / "my ph\u00f6tos"
    write_views(folder)
    return folder


@pytest.fixture(scope="module")
def described(images: Path) -> Path:
    out = images.parent / "features"
    assert cli.main(["describe", str(images), "--out", str(out), "--model", "rootsift", "--max-keypoints", "400"]) == 0
    return out


def test_features_round_trip(described: Path, images: Path) -> None:
    features = storage.FeatureFolder(described)
    assert list(features) == ["view 0.png", "view 1.png", "view 2.png"]
    item = features["view 0.png"]
    assert item.descriptors.shape == (400, 128)
    assert item.image_path == images / "view 0.png"
    assert item.model.name == "rootsift"
    storage.save(item, described.parent / "copy.npz")
    copy = storage.load(described.parent / "copy.npz")
    assert torch.equal(copy.descriptors, item.descriptors)
    assert torch.equal(copy.keypoints.frames(), item.keypoints.frames())
    (described.parent / "bad.npz").write_text("no")
    with pytest.raises(ValueError, match="not a features file"):
        storage.load(described.parent / "bad.npz")


def test_describing_again_continues_and_other_settings_are_refused(
    described: Path, images: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = sorted(described.glob("*.npz"))
    kept, lost = files[0].stat().st_mtime_ns, files[1]
    before = storage.load(lost).descriptors
    lost.unlink()
    command = ["describe", str(images), "--out", str(described), "--model", "rootsift", "--max-keypoints"]
    assert cli.main([*command, "400", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["photos"] == 3
    assert files[0].stat().st_mtime_ns == kept
    assert torch.equal(storage.load(lost).descriptors, before)
    assert cli.main([*command, "300"]) == 2
    assert "other inputs or settings" in capsys.readouterr().err


def test_bad_photos_are_left_out_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "photos"
    (folder / "sub").mkdir(parents=True)
    cv2.imwrite(str(folder / "sub" / "good.png"), texture(80, 90))
    (folder / "zero.jpg").touch()
    (folder / "link.png").symlink_to(folder / "sub" / "good.png")
    out = tmp_path / "f"
    assert cli.main(["describe", str(folder), "--out", str(out), "--model", "pixels", "--workers", "2"]) == 0
    said = capsys.readouterr()
    assert "zero.jpg is empty" in said.err
    assert sorted(storage.FeatureFolder(out)) == ["link.png", "sub/good.png"]
    (folder / "sub" / "good.png").write_bytes(b"")
    assert cli.main(["describe", str(folder), "--out", str(tmp_path / "g"), "--model", "pixels"]) == 2
    assert "none of the 3 photos" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["hloc", "colmap", "opencv-yml"])
def test_formats_hold_the_same_features(form: str, described: Path, images: Path, tmp_path: Path) -> None:
    out = tmp_path / {"hloc": "f.h5", "colmap": "f.db", "opencv-yml": "yml"}[form]
    command = [
        "describe",
        str(images),
        "--out",
        str(out),
        "--model",
        "rootsift",
        "--max-keypoints",
        "400",
        "--format",
        form,
    ]
    assert cli.main(command) == 0
    assert [path.name for path in tmp_path.iterdir()] == [out.name]  # nothing half-written beside it
    expected = storage.FeatureFolder(described)
    if form == "hloc":
        found = {name: item.keypoints for name, item in hloc.read_features(out)}
    elif form == "colmap":
        found = {image.name: image.keypoints for image in colmap.read_database(out)}
    else:
        found = {name: opencv_files.read_features(out / f"{name}.yml").keypoints for name in expected}
        again = opencv_files.read_features(out / "view 0.png.yml").descriptors
        assert torch.allclose(again, expected["view 0.png"].descriptors)
    for name, item in expected.items():
        assert torch.allclose(found[name].xy, item.keypoints.xy, atol=1e-3)
        assert torch.allclose(found[name].frames(), item.keypoints.frames(), atol=1e-2)
    assert cli.main(command) == 2  # exists already
    assert cli.main([*command[:-3], "300", "--format", form, "--force"]) == 0


def test_matching_many_and_mapping_what_came_out(described: Path, images: Path, tmp_path: Path) -> None:
    for name in ("m.h5", "m.db", "m.npz"):
        options = ["--mode", "mutual+ratio", "--ratio", "0.85"]
        assert cli.main(["match", str(described), "--out", str(tmp_path / name), *options]) == 0
    assert len(read_matches(tmp_path / "m.npz")) == 3
    assert len(hloc.read_matches(tmp_path / "m.h5", "view 0.png", "view 1.png")) > 30
    pycolmap = colmap.pycolmap
    with pycolmap.Database.open(tmp_path / "m.db") as store:
        assert store.num_matched_image_pairs() == store.num_verified_image_pairs() == 3
    options = pycolmap.IncrementalPipelineOptions(min_model_size=3)
    models = pycolmap.incremental_mapping(tmp_path / "m.db", images, tmp_path, options)
    assert models[0].num_reg_images() == 3


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
    assert "no features of view 9.png" in capsys.readouterr().err
    assert cli.main(["match", str(described)]) == 2
    assert "--out" in capsys.readouterr().err


def test_match_two_photos(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = [str(images / "view 0.png"), str(images / "view 1.png")]
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


def test_sfm_compares_and_resumes(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["sfm", str(images), "--out", str(out), "--model", "sift", "--max-keypoints", "600", "--single-camera"]
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
    assert cli.main(["sfm", str(images), "--out", str(tmp_path / "mine"), "--model", "sift", "--force"]) == 2
    assert (tmp_path / "mine" / "letter.txt").exists()


def test_torchrun_shares_the_photos(images: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "patchprint",
    ]
    command += ["describe", str(images), "--out", str(tmp_path / "f.h5"), "--model", "sift", "--format", "hloc"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, "--max-keypoints", "100"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("3 photos described") == 1
    assert sum(1 for _ in hloc.read_features(tmp_path / "f.h5")) == 3
    assert np.array_equal([path.name for path in tmp_path.iterdir()], ["f.h5"])
