"""Read the files of a folder, a zip or a tar in place, without unpacking to disk.

An archive whose names or links lead out of it is refused as a whole: it was made by mistake, or to harm whoever unpacks it.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError, parsing
from patchprint.common.safe_io import escapes_folder

_LIST_BYTES = 1 << 24
_REMEDY = "copy or download it again"


class FileTree:
    """Files by their relative POSIX names below ``path``, without hidden files.

    ``names`` are in the order in which they are read best: sorted, or that of a tar, which is read from front to back.
    """

    def __init__(self, path: Path, files: dict[str, Any], read: Callable[[Any], bytes]) -> None:
        self.path, self._read = path, read
        self._files = {
            name: file
            for name, file in files.items()
            if not any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))
        }
        if not self._files:
            raise UserError(f"{path} holds no files")

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        return self._read(self._files[name])


@contextlib.contextmanager
def open_tree(path: str | Path) -> Iterator[FileTree]:
    """Open a folder, a zip, or a (compressed) tar; the type is detected by the contents."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} is not there; expected a folder, a zip or a tar")
    if path.is_dir():
        yield FileTree(path, _in_folder(path), Path.read_bytes)
        return
    with open(path, "rb") as stream:
        is_zip = stream.read(2) == b"PK"
    with contextlib.ExitStack() as opened:
        yield (_zip_tree if is_zip else _tar_tree)(path, opened)


def _in_folder(path: Path) -> dict[str, Path]:
    """Links to files are followed, links to folders are not."""
    found = []
    for place, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place) / name for name in names]
    return dict(sorted((file.relative_to(path).as_posix(), file) for file in found))


def _zip_tree(path: Path, opened: contextlib.ExitStack) -> FileTree:
    def read(member: zipfile.ZipInfo) -> bytes:
        with parsing(f"{member.filename} in {path}", "a file that can be read", _REMEDY):
            return bundle.read(member)

    def members() -> Iterator[Member]:
        for member in bundle.infolist():
            if member.flag_bits & 1:
                raise UserError(f"{path} is encrypted; unpack it with its password and give the folder")
            target, folder = None, posixpath.dirname(member.filename)
            if stat.S_ISLNK(member.external_attr >> 16):
                target = posixpath.join(folder, read(member).decode(errors="replace"))
            yield member.filename, target, None if member.is_dir() else member

    with parsing(path, "a zip or tar that can be read", _REMEDY):
        bundle = opened.enter_context(zipfile.ZipFile(path))
        found = _files_inside(path, members())
    return FileTree(path, dict(sorted(found.items())), read)


def _tar_tree(path: Path, opened: contextlib.ExitStack) -> FileTree:
    def read(member: tarfile.TarInfo | bytes) -> bytes:
        if isinstance(member, bytes):
            return member
        with parsing(f"{member.name} in {path}", "a file that can be read", _REMEDY):
            stream = bundle.extractfile(member)
            return b"" if stream is None else stream.read()

    def members() -> Iterator[Member]:
        for member in bundle:
            folder = "" if member.islnk() else posixpath.dirname(member.name)
            target = posixpath.join(folder, member.linkname) if member.islnk() or member.issym() else None
            # Going back in a compressed tar means unpacking it again from its start, so lists are kept as they pass.
            is_list = member.isfile() and member.name.endswith((".txt", ".mat")) and member.size <= _LIST_BYTES
            yield member.name, target, read(member) if is_list else member if member.isfile() else None

    with parsing(path, "a zip or tar that can be read", _REMEDY):
        bundle = opened.enter_context(tarfile.open(path))  # noqa: SIM115 - the caller closes it
        found = _files_inside(path, members())
    return FileTree(path, found, read)


Member = tuple[str, str | None, Any]
"""Its name, where it leads if it is a link, and what `FileTree` reads if it is a file."""


def _files_inside(archive: Path, members: Iterable[Member]) -> dict[str, Any]:
    """Return the files by their normalized names, links followed; a name or link that leads out is refused."""
    found, links = {}, {}
    for name, target, member in members:
        target = None if target is None else posixpath.normpath(target.replace("\\", "/"))
        for what, place in (("name", name), ("link", target or "")):
            if escapes_folder(place):
                raise UserError(f"{archive} is refused: the {what} {name!r} in it leads out of it")
        name = posixpath.normpath(name.replace("\\", "/"))
        if target is not None:
            links[name] = target
        elif member is not None:
            found[name] = member
    return found | {name: found[target] for name, target in links.items() if target in found}
