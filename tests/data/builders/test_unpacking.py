"""Archives that climb out of their folder, are damaged, or unpack to far more than they hold."""

from __future__ import annotations

import io
import random
import tarfile
import zipfile
from pathlib import Path

import pytest

from patchprint.common.errors import UserError
from patchprint.data.builders import unpacking
from patchprint.data.builders.unpacking import unpack


def hostile_tar(path, name, link=False):
    with tarfile.open(path, "w:gz") as bundle:
        entry = tarfile.TarInfo(name)
        if link:
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        else:
            entry.size = 4
        bundle.addfile(entry, None if link else io.BytesIO(b"evil"))


@pytest.mark.parametrize("name", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_climbing_paths_are_refused(tmp_path, name, kind):
    archive = tmp_path / f"bad.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as bundle:
            bundle.writestr(name, "evil")
    else:
        hostile_tar(archive, name)
    (tmp_path / "inside").mkdir()
    with pytest.raises(ValueError, match="climbs out of the folder"):
        unpack(archive, tmp_path / "inside")
    assert list((tmp_path / "inside").iterdir()) == [] and not (tmp_path / "evil.txt").exists()


def test_links_and_damage_are_refused(tmp_path):
    hostile_tar(tmp_path / "link.tgz", "passwd", link=True)
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        unpack(tmp_path / "link.tgz", tmp_path)
    (tmp_path / "junk.zip").write_bytes(b"junk")
    with pytest.raises(ValueError, match="is no zip or tar file"):
        unpack(tmp_path / "junk.zip", tmp_path)


def archive_of(kind: str, path: Path) -> Path:
    """A whole archive with a few files."""
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
            for number in range(5):
                bundle.writestr(f"toy/{number}.txt", f"{number} " * 200)
    else:
        with tarfile.open(path, f"w:{kind}") as bundle:  # type: ignore[call-overload]
            for number in range(5):
                entry = tarfile.TarInfo(f"toy/{number}.txt")
                entry.size = 400
                bundle.addfile(entry, io.BytesIO(f"{number} ".encode() * 200))
    return path


@pytest.mark.parametrize("kind", ["zip", "gz", "bz2", "xz", ""])
def test_damaged_archives_are_refused_by_name_or_unpacked(tmp_path: Path, kind: str) -> None:
    """Bytes changed or cut at 60 places; what zipfile and tarfile raise then is of many kinds."""
    whole = archive_of(kind, tmp_path / "whole").read_bytes()
    generator = random.Random(kind)
    refusals = []
    for case in range(60):
        damaged = bytearray(whole)
        for _ in range(1 + case % 4):
            damaged[generator.randrange(len(whole))] = generator.randrange(256)
        (tmp_path / "damaged").write_bytes(damaged[: generator.randrange(len(whole))] if case % 5 == 0 else damaged)
        folder = tmp_path / f"out-{case}"
        folder.mkdir()
        try:
            unpack(tmp_path / "damaged", folder)
        except UserError as error:
            refusals.append(str(error))
    assert len(refusals) > 10
    assert [sentence for sentence in refusals if str(tmp_path / "damaged") not in sentence] == []
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "damaged", *(f"out-{case}" for case in range(60))}


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_bombs_are_refused_before_they_are_unpacked(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_LARGEST_CONTENTS", 1 << 20)
    zeros = bytes(700_000)
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("a", zeros)
            bundle.writestr("b", zeros)
    else:
        with tarfile.open(tmp_path / "bomb", "w:gz") as bundle:
            for name in "ab":
                entry = tarfile.TarInfo(name)
                entry.size = len(zeros)
                bundle.addfile(entry, io.BytesIO(zeros))
    assert (tmp_path / "bomb").stat().st_size < 10_000
    (tmp_path / "inside").mkdir()
    with pytest.raises(UserError, match="holds more than 1048576 bytes"):
        unpack(tmp_path / "bomb", tmp_path / "inside")
    assert list((tmp_path / "inside").iterdir()) == []


def test_very_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_MOST_FILES", 10)
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as bundle:
        for number in range(11):
            bundle.writestr(str(number), "")
    with pytest.raises(UserError, match="or 10 files"):
        unpack(tmp_path / "many.zip", tmp_path / "inside")
