"""``patchprint describe``: many photos, resuming, formats, several processes."""

import json
import shutil
from pathlib import Path

import cv2
import pytest
import torch

from patchprint import cli
from patchprint.interop import colmap_models, hloc, opencv_files
from patchprint.storage import feature_files


def test_describing_again_continues_and_other_settings_are_refused(
    described: Path, views: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = shutil.copytree(described, tmp_path / "features")
    files = sorted(described.glob("*.npz"))
    kept, lost = files[0].stat().st_mtime_ns, files[1]
    before = feature_files.load_features(lost).descriptors
    lost.unlink()
    command = ["describe", str(views), "--out", str(described), "--model", "rootsift", "--max-keypoints"]
    assert cli.main([*command, "400", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == 3
    assert files[0].stat().st_mtime_ns == kept
    assert torch.equal(feature_files.load_features(lost).descriptors, before)
    assert cli.main([*command, "300"]) == 2
    assert "other inputs or settings" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["hloc", "colmap", "opencv-yml"])
def test_formats_hold_the_same_features(form: str, described: Path, views: Path, tmp_path: Path) -> None:
    out = tmp_path / {"hloc": "f.h5", "colmap": "f.db", "opencv-yml": "yml"}[form]
    command = ["describe", str(views), *f"--out {out} --format {form} --model rootsift --max-keypoints".split()]
    assert cli.main([*command, "400"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [out.name]  # nothing half-written beside it
    expected = feature_files.FeatureFolder(described)
    if form == "hloc":
        found = {name: item.keypoints for name, item in hloc.read_features(out)}
    elif form == "colmap":
        found = {image.name: image.keypoints for image in colmap_models.read_database(out)}
    else:
        found = {name: opencv_files.read_features(out / f"{name}.yml").keypoints for name in expected}
        again = opencv_files.read_features(out / "view 0.png.yml").descriptors
        assert torch.allclose(again, expected["view 0.png"].descriptors)
    for name, item in expected.items():
        assert torch.allclose(found[name].xy, item.keypoints.xy, atol=1e-3)
        assert torch.allclose(found[name].frames(), item.keypoints.frames(), atol=1e-2)
    assert cli.main([*command, "400"]) == 2  # exists already
    assert cli.main([*command, "300", "--force"]) == 0


def test_a_colmap_database_says_what_comes_next_and_that_fills_it(
    described: Path, views: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "d.db"
    command = ["describe", str(views), "--out", str(out), "--format", "colmap", "--model", "rootsift"]
    assert cli.main([*command, "--max-keypoints", "400"]) == 0
    said = capsys.readouterr().err
    assert "those for SIFT refuse them" in said and f"patchprint match FEATURES --out {out} --force" in said
    (tmp_path / "pairs.txt").write_text("view 0.png\tview 1.png\n")
    command = ["match", str(described), "--pairs", str(tmp_path / "pairs.txt"), "--out", str(out), "--force", "--json"]
    assert cli.main(command) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["pairs"] == 1 and answer["matches"] > 30
    with colmap_models.pycolmap.Database.open(out) as store:
        assert store.num_matched_image_pairs() == store.num_verified_image_pairs() == 1
        assert len(store.read_all_images()) == 3


def test_max_size_is_kept_with_the_features(views: Path, tmp_path: Path) -> None:
    command = ["describe", str(views), "--model", "rootsift", "--out", str(tmp_path / "f"), "--max-size", "150"]
    assert cli.main(command) == 0
    features = feature_files.FeatureFolder(tmp_path / "f")
    assert features.manifest["settings"]["max_size"] == 150
    image = cv2.imread(str(views / "view 0.png"))
    assert features["view 0.png"].image_size == (image.shape[1], image.shape[0])
    assert features["view 0.png"].keypoints.xy.max() > 150
