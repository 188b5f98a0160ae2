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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError
from patchprint.common.safe_io import leads_outside

_LIST_BYTES = 1 << 24


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
    with contextlib.ExitStack() as opened:
        if path.is_dir():
            yield FileTree(path, _in_folder(path), Path.read_bytes)
        else:
            with open(path, "rb") as stream:
                is_zip = stream.read(2) == b"PK"
            yield (_zip_tree if is_zip else _tar_tree)(path, opened)


def _in_folder(path: Path) -> dict[str, Path]:
    """Links to files are followed, links to folders are not."""
    found = []
    for place, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place) / name for name in names]
    return dict(sorted((file.relative_to(path).as_posix(), file) for file in found))


def _zip_tree(path: Path, opened: contextlib.ExitStack) -> FileTree:
    found: dict[str, zipfile.ZipInfo] = {}
    links: dict[str, str] = {}

    def read(member: zipfile.ZipInfo) -> bytes:
        with _damage_named(path, member.filename):
            return bundle.read(member)

    with _damage_named(path):
        bundle = opened.enter_context(zipfile.ZipFile(path))
        for member in bundle.infolist():
            name = _inside(member.filename, path)
            if member.flag_bits & 1:
                raise UserError(f"{path} is encrypted; unpack it with its password and give the folder")
            if stat.S_ISLNK(member.external_attr >> 16):
                target = read(member).decode(errors="replace")
                links[name] = _inside(posixpath.join(posixpath.dirname(name), target), path, name)
            elif not member.is_dir():
                found[name] = member
    followed = {name: found[target] for name, target in links.items() if target in found}
    return FileTree(path, dict(sorted((found | followed).items())), read)


def _tar_tree(path: Path, opened: contextlib.ExitStack) -> FileTree:
    found: dict[str, tarfile.TarInfo | bytes] = {}
    links: dict[str, str] = {}

    def read(member: tarfile.TarInfo | bytes) -> bytes:
        if isinstance(member, bytes):
            return member
        with _damage_named(path, member.name):
            stream = bundle.extractfile(member)
            return b"" if stream is None else stream.read()

    with _damage_named(path):
        bundle = opened.enter_context(tarfile.open(path))  # noqa: SIM115 - the caller closes it
        for member in bundle:
            name = _inside(member.name, path)
            if member.issym():
                links[name] = _inside(posixpath.join(posixpath.dirname(name), member.linkname), path, name)
            elif member.islnk():
                links[name] = _inside(member.linkname, path, name)
            elif member.isfile():
                # Going back in a compressed tar means unpacking it again from its start, so lists are kept as they pass.
                is_list = name.endswith((".txt", ".mat")) and member.size <= _LIST_BYTES
                found[name] = read(member) if is_list else member
    return FileTree(path, found | {name: found[target] for name, target in links.items() if target in found}, read)


def _inside(name: str, archive: Path, link: str | None = None) -> str:
    """Return the normalized name of a member, or the target of ``link``; one that is absolute or goes up is refused."""
    name = name.replace("\\", "/")
    if leads_outside(name if link is None else posixpath.normpath(name)):
        what = (
            f"name {name!r} in it leads out of it"
            if link is None
            else f"link {link!r} in it leads out of it, to {name!r}"
        )
        raise UserError(f"{archive} is refused: the {what}")
    return posixpath.normpath(name)


@contextlib.contextmanager
def _damage_named(path: Path, member: str | None = None) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    # The standard library fails with whatever it stumbles on.
    except Exception as error:
        what = f"{path} is no zip or tar that can be read" if member is None else f"{member} in {path} cannot be read"
        raise UserError(f"{what}: it is cut short or damaged; copy or download it again") from error
