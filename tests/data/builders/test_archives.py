"""Folders and archives read alike, and archives that lead out, or are damaged, are refused."""

import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from patchprint.common.errors import UserError
from patchprint.data.builders.archives import open_tree
from support.labeled_sets import KINDS, pack

FILES = {"a/1.jpg": b"one", "a/2.jpg": b"two" * 1000, "b/c/3.jpg": b"", "list.txt": b"names"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in {**FILES, ".hidden": b"x", "a/._1.jpg": b"mac", "__MACOSX/a/1.jpg": b"mac"}.items():
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(data)
    return tmp_path / "set"


@pytest.mark.parametrize("kind", [*KINDS, "tar.xz"])
def test_all_kinds_hold_the_same_files(folder: Path, kind: str) -> None:
    top = "" if kind == "folder" else "set/"
    with open_tree(pack(folder, kind)) as tree:
        assert {name: tree.read(name) for name in tree.names} == {top + name: data for name, data in FILES.items()}
        assert tree.names == sorted(tree.names)
        assert f"{top}a/1.jpg" in tree and "a/9.jpg" not in tree


def test_nothing_is_left_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent / "temporary"))
    with open_tree(pack(folder, "zip")):
        assert list((folder.parent / "temporary").iterdir())
    (folder.parent / "damaged").write_bytes(b"PK")
    with pytest.raises(UserError), open_tree(folder.parent / "damaged"):
        pass
    assert not list((folder.parent / "temporary").iterdir())


def zip_with(path: Path, name: str) -> None:
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("good/1.jpg", "x")
        member = zipfile.ZipInfo()
        member.filename = name
        bundle.writestr(member, "x")


def tar_with(path: Path, name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> None:
    with tarfile.open(path, "w") as bundle:
        good = tarfile.TarInfo("good/1.jpg")
        good.size = 1
        bundle.addfile(good, io.BytesIO(b"x"))
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        bundle.addfile(member)


LEADS_OUT: dict[str, Callable[[Path], None]] = {
    "zip up": lambda path: zip_with(path, "../evil.jpg"),
    "zip up inside": lambda path: zip_with(path, "a/../../evil.jpg"),
    "zip up, Windows": lambda path: zip_with(path, "a\\..\\evil.jpg"),
    "zip absolute": lambda path: zip_with(path, "/etc/evil.jpg"),
    "zip drive": lambda path: zip_with(path, "C:/evil.jpg"),
    "tar up": lambda path: tar_with(path, "../evil.jpg"),
    "tar absolute": lambda path: tar_with(path, "/etc/evil.jpg"),
    "tar folder up": lambda path: tar_with(path, "../evil", tarfile.DIRTYPE),
    "tar link up": lambda path: tar_with(path, "a/evil.jpg", tarfile.SYMTYPE, "../../etc/passwd"),
    "tar link absolute": lambda path: tar_with(path, "evil.jpg", tarfile.SYMTYPE, "/etc/passwd"),
    "tar hard link": lambda path: tar_with(path, "a/evil.jpg", tarfile.LNKTYPE, "../etc/passwd"),
    "tar device": lambda path: tar_with(path, "evil.jpg", tarfile.CHRTYPE),
}


@pytest.mark.parametrize("case", LEADS_OUT)
def test_what_leads_out_is_refused_as_a_whole(tmp_path: Path, case: str) -> None:
    LEADS_OUT[case](tmp_path / "archive")
    with pytest.raises(UserError, match=r"archive is .*'?.*evil") as caught, open_tree(tmp_path / "archive"):
        pass
    assert "\n" not in str(caught.value)


def test_links_inside_a_tar_are_followed(tmp_path: Path) -> None:
    tar_with(tmp_path / "soft", "a/same.jpg", tarfile.SYMTYPE, "../good/1.jpg")
    tar_with(tmp_path / "hard", "a/same.jpg", tarfile.LNKTYPE, "good/1.jpg")
    for name in ("soft", "hard"):
        with open_tree(tmp_path / name) as tree:
            assert tree.read("a/same.jpg") == b"x"


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    zip_with(tmp_path / "a.zip", "b.jpg")
    data = bytearray((tmp_path / "a.zip").read_bytes())
    for start, flags in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        position = data.find(start)
        while position >= 0:
            data[position + flags] |= 1
            position = data.find(start, position + 1)
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(UserError, match=r"a\.zip is not .*encrypted"), open_tree(tmp_path / "a.zip"):
        pass


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_truncated_archive_is_refused(folder: Path, kind: str) -> None:
    (folder / "z.jpg").write_bytes(bytes(range(256)) * 100)
    archive = pack(folder, kind)
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(UserError, match=r"or damaged .*; copy or download it again"), open_tree(archive):
        pass


def test_nothing_is_said_to_be_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    zipfile.ZipFile(tmp_path / "a.zip", "w").close()
    tarfile.open(tmp_path / "a.tar", "w").close()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").touch()
    expected = {
        "folder": "holds no files",
        "a.zip": "holds no files",
        "a.tar": "holds no files",
        "text": "is not a zip or tar",
        "empty": "is not a zip or tar",
        "gone": "is not there",
    }
    for name, message in expected.items():
        with pytest.raises(UserError, match=message) as caught, open_tree(tmp_path / name):
            pass
        assert "\n" not in str(caught.value) and name in str(caught.value)
