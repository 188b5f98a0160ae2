"""The files of a folder, zip or tar; archives are unpacked to a temporary folder.

An archive whose names or links lead out of it is refused as a whole: it was made by mistake, or to harm whoever unpacks it.
"""

import contextlib
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from patchprint.common.errors import UserError, parsing
from patchprint.common.safe_io import escapes_folder


class FileTree:
    """Files by their relative POSIX names below ``root``, sorted, without hidden ones; links to folders are not followed.

    ``path`` is what the user named: the folder, or the archive that was unpacked to it.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self._root = path, root
        files = (Path(place, name).relative_to(root) for place, _, names in os.walk(root) for name in names)
        shown = (file for file in files if not any(part.startswith(".") or part == "__MACOSX" for part in file.parts))
        self.names = sorted(file.as_posix() for file in shown)
        self._known = frozenset(self.names)
        if not self.names:
            raise UserError(f"{path} holds no files")

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        return (self._root / name).read_bytes()


@contextlib.contextmanager
def open_tree(path: str | Path) -> Iterator[FileTree]:
    """Open a folder, a zip, or a (compressed) tar; an archive is unpacked until this ends (``TMPDIR`` says where)."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} is not there; expected a folder, a zip or a tar")
    if path.is_dir():
        yield FileTree(path, path)
        return
    with tempfile.TemporaryDirectory(prefix="patchprint-") as folder:
        unpack(path, Path(folder))
        yield FileTree(path, Path(folder))


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar into ``folder``; UserError where it is damaged, or leads out of the folder."""

    def refuse_outside(name: str) -> None:
        if escapes_folder(name):
            raise UserError(f"{archive} is refused: the name {name!r} in it leads out of it")

    def inside(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo | None:
        refuse_outside(member.name)
        return tarfile.data_filter(member, target)

    with parsing(archive, "a zip or tar that can be read", "copy or download it again"):
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as bundle:
                for name in bundle.namelist():
                    refuse_outside(name)
                bundle.extractall(folder)
        else:
            with tarfile.open(archive) as tape:
                tape.extractall(folder, filter=inside)
