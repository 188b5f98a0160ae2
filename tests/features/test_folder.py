"""A folder of photos is described once, and only what is missing is described again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from patchprint.features import extract, storage
from patchprint.features.folder import DescribeSettings, describe_folder
from support.scenes import Room

SETTINGS = DescribeSettings("pixels", max_keypoints=30)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    Room(views=2, height=80, width=90).write(tmp_path / "photos")
    return tmp_path / "photos"


def test_features_are_those_of_each_photo_alone(photos: Path, tmp_path: Path) -> None:
    folder = describe_folder(photos, tmp_path / "out", SETTINGS)
    assert list(folder) == ["view-0.png", "view-1.png"]
    for name, item in folder.items():
        alone = extract(photos / name, "pixels", max_keypoints=30)
        assert len(item) == 30 and torch.equal(item.descriptors, alone.descriptors)


def test_what_is_there_is_not_made_again(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    describe_folder(photos, tmp_path / "out", SETTINGS)
    (tmp_path / "out" / "view-1.png.npz").unlink()
    made = []
    save = storage.save
    monkeypatch.setattr(storage, "save", lambda features, path: (made.append(Path(path).name), save(features, path)))
    describe_folder(photos, tmp_path / "out", SETTINGS)
    assert made == ["view-1.png.npz"]
    with pytest.raises(ValueError, match="other inputs or settings"):
        describe_folder(photos, tmp_path / "out", DescribeSettings("pixels", max_keypoints=20))
    again = describe_folder(photos, tmp_path / "out", DescribeSettings("pixels", max_keypoints=20), force=True)
    assert [len(item) for item in again.values()] == [20, 20]


def test_named_photos_and_damaged_ones(photos: Path, tmp_path: Path) -> None:
    said: list[str] = []
    (photos / "view-0.png").write_bytes(b"no picture")
    assert list(describe_folder(photos, tmp_path / "all", SETTINGS, report=said.append)) == ["view-1.png"]
    assert len(said) == 1 and said[0].startswith("left out: ") and "view-0.png" in said[0]
    with pytest.raises(ValueError, match="none of the 1 photos"):
        describe_folder(photos, tmp_path / "one", SETTINGS, names=["view-0.png"], report=said.append)
