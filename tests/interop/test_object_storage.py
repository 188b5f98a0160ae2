"""Photos in object storage are listed and read as those of a folder; what cannot be reached is named."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import pytest

from patchprint import cli
from patchprint.common.errors import MissingPackageError
from patchprint.features.extract import DescribeSettings
from patchprint.interop import object_storage
from patchprint.interop.images import is_url, join_image_path, list_images, local_path, path_or_url, read_gray
from patchprint.storage.feature_folder import describe_folder
from support.known_images import texture

fsspec = pytest.importorskip("fsspec", reason="object storage is read by fsspec (the extra cluster)")


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[str]:
    """Two photos in memory, and the same in a folder."""
    store = fsspec.filesystem("memory")
    for number, name in enumerate(("0.png", "more/1.png")):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), texture(80, 90, number))
        store.pipe_file(f"/photos/{name}", path.read_bytes())
    store.pipe_file("/photos/notes.txt", b"no photo")
    store.pipe_file("/photos/.hidden/2.png", b"no photo")
    yield "memory://photos"
    store.rm("/photos", recursive=True)


def test_places() -> None:
    assert path_or_url("s3://bucket/photos") == "s3://bucket/photos" and path_or_url("photos") == Path("photos")
    assert is_url("s3://a") and not is_url("a/b") and not is_url(Path("a"))
    assert join_image_path("s3://bucket/photos/", "a/b.png") == "s3://bucket/photos/a/b.png"
    assert join_image_path("photos", "b.png") == Path("photos/b.png")
    assert local_path("s3://a/b.png") is None and local_path("b.png") == Path("b.png")


def test_photos_are_described_as_those_of_a_folder(stored: str, tmp_path: Path) -> None:
    assert list_images(stored) == list_images(tmp_path / "photos") == ["0.png", "more/1.png"]
    assert (read_gray(f"{stored}/0.png") == read_gray(tmp_path / "photos" / "0.png")).all()
    settings = DescribeSettings(model="pixels", max_keypoints=20)
    there = describe_folder(stored, tmp_path / "there", settings)
    here = describe_folder(tmp_path / "photos", tmp_path / "here", settings)
    assert there.manifest["photos_folder"] == stored
    for name in here:
        assert there[name].descriptors.equal(here[name].descriptors) and there[name].image_path is None


def test_the_command_takes_urls(stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["describe", stored, "--model", "pixels", "--max-keypoints", "9", "--out"]
    assert cli.main([*command, str(tmp_path / "f.h5"), "--format", "hloc"]) == 0
    assert cli.main([*command, str(tmp_path / "c.db"), "--format", "colmap"]) == 2
    assert f"these are at {stored}; copy them to a folder" in capsys.readouterr().err


def test_what_cannot_be_reached_is_named(stored: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is nothing at memory://nowhere"):
        list_images("memory://nowhere")
    with pytest.raises(ValueError, match=f"there is nothing at {stored}/2.png"):
        read_gray(f"{stored}/2.png")
    with pytest.raises(ValueError, match="nosuch://a cannot be read: Protocol not known"):
        list_images("nosuch://a")
    said: list[str] = []
    found = describe_folder(
        stored, tmp_path / "o", DescribeSettings(model="pixels"), names=["0.png", "gone.png"], report=said.append
    )
    assert list(found) == ["0.png"] and said == [f"left out: there is nothing at {stored}/gone.png"]


def test_a_protocol_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(object_storage, "_open", missing)
    with pytest.raises(MissingPackageError, match="s3://bucket cannot be read: Install s3fs"):
        list_images("s3://bucket")
