"""Features as files of other tools and back; those of the tools themselves are tested in interop."""

import sys
from pathlib import Path

import pytest
import torch

from patchprint import cli
from patchprint.interop import colmap_models
from patchprint.storage import feature_formats
from patchprint.storage.feature_files import FeatureFolder


@pytest.mark.parametrize(("form", "name"), [("hloc", "f.h5"), ("hloc", "no-suffix"), ("opencv-yml", "yml")])
def test_what_was_written_is_opened_again(form: str, name: str, described: Path, tmp_path: Path) -> None:
    features = FeatureFolder(described)
    feature_formats.write_features(features, tmp_path / name, form)
    back = feature_formats.open_features(tmp_path / name)
    assert list(back) == list(features)
    for image, item in features.items():
        assert torch.equal(back[image].descriptors, item.descriptors)
        assert (back[image].model, back[image].ratio) == (item.model, item.ratio)
        assert torch.allclose(back[image].keypoints.xy, item.keypoints.xy)
    assert isinstance(feature_formats.open_features(described), FeatureFolder)


@pytest.mark.parametrize("exif", [False, True])
def test_hloc_files_name_the_folder_of_their_images(exif: bool, described: Path, views: Path, tmp_path: Path) -> None:
    """So that ``match features.h5 --out m.db`` works; not where images were rotated, whose pixels COLMAP reads otherwise."""
    features = FeatureFolder(described)
    features.manifest["settings"]["exif"] = exif
    feature_formats.write_features(features, tmp_path / "f.h5", "hloc")
    paths = {name: item.image_path for name, item in feature_formats.open_features(tmp_path / "f.h5").items()}
    assert paths == {name: None if exif else views / name for name in features}


def test_an_hloc_file_becomes_a_colmap_database(described: Path, tmp_path: Path) -> None:
    features = FeatureFolder(described)
    feature_formats.write_features(features, tmp_path / "features.h5", "hloc")
    assert cli.main(["match", str(tmp_path / "features.h5"), "--out", str(tmp_path / "m.db")]) == 0
    assert [image.name for image in colmap_models.read_database(tmp_path / "m.db")] == list(features)


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    (tmp_path / "settings.json").touch()
    with pytest.raises(ValueError, match=r"a\.png is one file: give a second image"):
        feature_formats.open_features(tmp_path / "a.png")
    with pytest.raises(ValueError, match="holds no features in OpenCV's YAML"):
        feature_formats.open_features(tmp_path)
    with pytest.raises(ValueError, match="make them with patchprint describe"):
        feature_formats.open_features(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("form", "exif", "missing", "message"),
    [
        ("hloc", False, "h5py", "this needs the package 'h5py'"),
        ("colmap", False, "pycolmap", "this needs the package 'pycolmap'"),
        ("colmap", True, "", "describe them without --exif"),
        ("hloc", False, "folder", "is a folder, but one file is written"),
        ("opencv-yml", False, "folder", "--force"),
    ],
)
def test_what_would_fail_at_the_end_fails_at_the_start(
    form: str, exif: bool, missing: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "folder":
        (tmp_path / "out").mkdir()
    elif missing:
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=message):
        feature_formats.check_output(tmp_path / "out", form, exif)
