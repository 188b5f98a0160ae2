"""Features of many photos in few files are read as those in files of their own."""

import dataclasses
import zipfile
from pathlib import Path

import cv2
import pytest

from patchprint.features.extract import DescribeSettings
from patchprint.interop import hloc
from patchprint.storage import describe_jobs, feature_formats, shards
from patchprint.storage.feature_files import FeatureFolder
from patchprint.storage.feature_folder import describe_folder
from support.known_images import texture

SETTINGS = DescribeSettings(model="pixels", max_keypoints=20)


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shards, "_FEWEST_SHARDS", 3)  # two photos in each
    for number in range(5):
        path = tmp_path / "photos" / ("more" if number > 2 else "") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), texture(80, 90, number))
    return tmp_path / "photos"


def files_in(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file() and file.name[0] != "."}


def test_shards_hold_the_bytes_of_single_files(photos: Path, tmp_path: Path) -> None:
    single = describe_folder(photos, tmp_path / "single", SETTINGS)
    packed = describe_folder(photos, tmp_path / "packed", SETTINGS, shards=True)
    assert list(packed) == list(single) == ["0.png", "1.png", "2.png", "more/3.png", "more/4.png"]
    assert [packed.contents(name) for name in packed] == [single.contents(name) for name in single]
    assert files_in(tmp_path / "packed") == {"features.json", *(f"shards/00000{number}.zip" for number in range(3))}
    assert not (tmp_path / "packed" / "more").exists(), "folders of single files are gone with them"
    assert len(packed["more/3.png"]) == 20
    with pytest.raises(KeyError):
        packed["5.png"]
    feature_formats.write_features(packed, tmp_path / "f.h5", "hloc")
    assert {name: len(item) for name, item in hloc.read_features(tmp_path / "f.h5")} == dict.fromkeys(packed, 20)


def test_only_what_is_missing_is_made(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = (photos / "2.png").read_bytes()
    (photos / "2.png").write_bytes(b"no image")
    out, said = tmp_path / "out", list[str]()
    assert describe_folder(photos, out, SETTINGS, shards=True, report=said.append).left_out == ["2.png"]
    before = {path.name: path.read_bytes() for path in (out / "shards").iterdir()}
    made = []
    save = describe_jobs._save
    monkeypatch.setattr(describe_jobs, "_save", lambda job, data: (made.append(job.out.name), save(job, data))[1])
    (photos / "2.png").write_bytes(good)
    (out / "shards" / "000002.zip").unlink()
    whole = describe_folder(photos, out, SETTINGS, shards=True)
    assert made == ["2.png.npz", "4.png.npz"] and whole.left_out == []
    assert (out / "shards" / "000002.zip").read_bytes() == before["000002.zip"], "equal features are equal bytes"
    assert zipfile.ZipFile(out / "shards" / "000001.zip").namelist() == ["2.png.npz", "more/3.png.npz"]
    describe_folder(photos, out, SETTINGS, shards=True)
    assert len(made) == 2
    with pytest.raises(ValueError, match="other inputs or settings"):
        describe_folder(photos, out, SETTINGS)


def test_what_was_packed_before_a_kill_is_not_packed_again(photos: Path, tmp_path: Path) -> None:
    packed = describe_folder(photos, tmp_path / "out", SETTINGS, shards=True)
    assert packed.shards is not None
    shard = packed.shards.path(0)
    stamp = shard.stat().st_mtime_ns
    (tmp_path / "out" / "1.png.npz").write_bytes(packed.contents("1.png"))
    packed.shards.pack(0)
    assert shard.stat().st_mtime_ns == stamp and not (tmp_path / "out" / "1.png.npz").exists()


def test_the_size_of_a_shard_follows_from_the_number_of_photos() -> None:
    sizes = {count: shards.images_per_shard(count) for count in (1, 64, 65, 10_000, 1_000_000)}
    assert sizes == {1: 1, 64: 1, 65: 2, 10_000: 157, 1_000_000: 256}


def test_damaged_shards_are_named(photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    describe_folder(photos, out, dataclasses.replace(SETTINGS, max_keypoints=5), shards=True)
    shard = out / "shards" / "000001.zip"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-30])
    with pytest.raises(ValueError, match=r"000001\.zip is not a shard of features"):
        FeatureFolder(out)
    with zipfile.ZipFile(shard, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("2.png.npz", b"0" * 1000)
    with pytest.raises(ValueError, match=r"000001\.zip: 2\.png in it is compressed"):
        FeatureFolder(out)["2.png"]
