"""Archives from elsewhere: unpacked into one folder, or refused before a byte is written."""

from __future__ import annotations

import errno
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from patchprint.common.errors import UserError

# The largest set, HPatches' patches, takes a few gigabytes; what is far larger is no set of ours.
_LARGEST_CONTENTS = 32 << 30
_MOST_FILES = 1_000_000
# What zipfile and tarfile raise at damaged archives; hostile names make the system refuse (too long, a file as a folder).
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, struct.error, NotImplementedError,
    RuntimeError, LookupError, ValueError, OverflowError,
)  # fmt: skip
_DAMAGE_BY_SYSTEM = (None, errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EINVAL)


class NotTheSetError(UserError):
    """An archive is damaged, hostile or something else; another mirror may have the right one."""


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar file.

    Refused are members that climb out of the folder or are neither files nor folders, and more bytes than any set has.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as bundle:
                _refuse_hostile(((member.filename, member.file_size) for member in bundle.infolist()), archive)
                bundle.extractall(folder)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as bundle:
                _refuse_hostile(((_name_of_plain(entry, archive), entry.size) for entry in bundle), archive)
                bundle.extractall(folder, filter="data")
        else:
            raise NotTheSetError(f"{archive} is no zip or tar file")
    except UserError:
        raise
    except _DAMAGE as error:
        raise NotTheSetError(f"{archive} is damaged: {error or type(error).__name__}") from None
    except OSError as error:
        if error.errno in _DAMAGE_BY_SYSTEM:
            raise NotTheSetError(f"{archive} cannot be unpacked: {error}") from None
        raise


def _name_of_plain(entry: tarfile.TarInfo, archive: Path) -> str:
    if not (entry.isfile() or entry.isdir()):
        raise NotTheSetError(f"{archive} holds {entry.name!r}, which is neither a file nor a folder; not unpacked")
    return entry.name


def _refuse_hostile(members: Iterable[tuple[str, int]], archive: Path) -> None:
    """Names and sizes of members are looked at before a byte is unpacked; no reader gives more bytes than it announces."""
    total = 0
    for number, (name, size) in enumerate(members, start=1):
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or (path.parts and ":" in path.parts[0]):
            raise NotTheSetError(f"{archive} holds the path {name!r}, which climbs out of the folder; not unpacked")
        total += size
        if size < 0 or total > _LARGEST_CONTENTS or number > _MOST_FILES:
            raise NotTheSetError(
                f"{archive} holds more than {_LARGEST_CONTENTS} bytes or {_MOST_FILES} files; not unpacked"
            )
