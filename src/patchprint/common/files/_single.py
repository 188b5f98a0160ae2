"""Atomic writing of single files; leftovers of killed writers are removed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from patchprint.common.files._locks import lock_of

MARKER = ".patchprint"  # how the names begin that patchprint gives for itself
TEMPORARY = re.compile(re.escape(MARKER) + r"\.[a-z0-9_]{8}\..+")  # .patchprint.RANDOM.NAME of `atomic_file`
_tidied: set[Path] = set()  # folders in which this process has looked for what killed writers left


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file in the same folder; on success flush it to disk and rename it to ``path``.

    Write into it: one that is moved into its place is not locked, and other writers may take it for a leftover.
    """
    path = Path(path)
    with saying_what_failed(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(path, _new_file) as temporary:
            yield temporary
            flush(temporary)
            temporary.chmod(0o666 & ~_current_umask())
            temporary.replace(path)
            flush(path.parent)


@contextlib.contextmanager
def temporary_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder beside ``path`` for what is made on the way to it; it is removed in the end."""
    path = Path(path)
    with saying_what_failed(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(path, _new_folder) as temporary:
            yield temporary


def write_text(path: str | Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def saying_what_failed(path: Path) -> Iterator[None]:
    """Errors of a full disk, which name no file, or a temporary one, name ``path``."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not TEMPORARY.fullmatch(Path(os.fsdecode(error.filename)).name):
            raise
        reason: BaseException = error
        while isinstance(reason.__cause__, OSError):  # of a file in a folder that is not there yet, the folder is named
            reason = reason.__cause__
        raise OSError(f"{path} could not be written: {getattr(reason, 'strerror', None) or reason}") from error


def flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _new_file(path: Path) -> Path:
    # The end of the name, since libraries go by it; not all of it, since a name has at most 255 bytes.
    handle, name = tempfile.mkstemp(prefix=f"{MARKER}.", suffix=f".{path.name[-40:]}", dir=path.parent)
    os.close(handle)
    return Path(name)


def _new_folder(path: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{MARKER}.", suffix=f".{path.name[-40:]}", dir=path.parent))


@contextlib.contextmanager
def _temporary(path: Path, make: Callable[[Path], Path]) -> Iterator[Path]:
    """A file or folder beside ``path``, removed in the end; locked, so that `_tidy` takes no living one for a leftover."""
    _tidy(path.parent)
    while True:
        temporary = make(path)
        try:
            lock = lock_of(temporary)
        except FileNotFoundError:  # another process tidied up before we had the lock
            continue
        if lock is None or temporary.exists():
            break
        os.close(lock)
    try:
        yield temporary
    finally:
        _remove(temporary)
        if lock is not None:
            os.close(lock)


def _tidy(folder: Path) -> None:
    """Remove the temporary files of killed writers: those that nobody holds. Once in a process, since folders can be long."""
    folder = folder.resolve()
    if folder in _tidied:
        return
    _tidied.add(folder)
    for entry in folder.glob(f"{MARKER}.*"):
        if TEMPORARY.fullmatch(entry.name):
            with contextlib.suppress(OSError):  # it is somebody else's to remove
                lock = lock_of(entry, wait=False)
                if lock is not None:
                    _remove(entry)
                    os.close(lock)


def _remove(temporary: Path) -> None:
    if temporary.is_dir():
        shutil.rmtree(temporary)
    else:
        temporary.unlink(missing_ok=True)


def _current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
