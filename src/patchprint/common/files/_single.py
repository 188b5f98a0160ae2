"""Checks of output paths, atomic writing of single files, and locks between processes that write."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from patchprint.common.errors import UserError

try:
    import fcntl
except ImportError:  # Windows: one writer at a time is then up to the caller
    fcntl = None  # type: ignore[assignment]

MARKER = ".patchprint"  # how the names begin that patchprint gives for itself
TEMPORARY = re.compile(re.escape(MARKER) + r"\.[a-z0-9_]{8}\..+")  # .patchprint.RANDOM.NAME of `atomic_file`
_tidied: set[Path] = set()  # folders in which this process has looked for what killed writers left


def refuse_overwrite(path: str | Path, force: bool) -> None:
    """Raise UserError where ``path`` exists and ``force`` was not given."""
    if Path(path).exists() and not force:
        raise UserError(f"{path} exists already; give another --out, or --force to replace it")


def refuse_file(path: str | Path, force: bool) -> None:
    """Raise where `atomic_file` would fail or replace something, so that hours of work do not end with it."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder, but one file is written; give --out the name of a file in it")
    refuse_overwrite(path, force)
    parent = next(place for place in path.absolute().parents if place.exists())
    if not parent.is_dir():
        raise UserError(f"{path} cannot be written, since {parent} is a file and no folder; give another --out")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} cannot be written: there is no permission to write to {parent}")
    try:  # some file systems, like /proc, refuse what they seem to permit
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise OSError(f"{path} cannot be written: {parent} takes no files ({error.strerror})") from error


def refuse_overlap(out: str | Path, source: str | Path, inside: bool = False) -> None:
    """Raise UserError where writing ``out`` could harm ``source``: it is the same folder, or holds it.

    With ``inside`` also where it lies in ``source``, for outputs that the next run would take for inputs.
    """
    written, read = Path(out).resolve(), Path(source).resolve()
    if written == read or written in read.parents:
        raise UserError(f"the output {out} is or holds the input {source}; give another output folder")
    if inside and read in written.parents:
        raise UserError(
            f"the output {out} lies in the input {source}, where the next run would read it; give a folder elsewhere"
        )


def cache_folder(name: str) -> Path:
    """Return the cache folder ``name``, below ``PATCHPRINT_CACHE`` or ``~/.cache/patchprint``."""
    root = os.environ.get("PATCHPRINT_CACHE") or Path.home() / ".cache" / "patchprint"
    return Path(root).expanduser() / name


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file in the same folder; on success flush it to disk and rename it to ``path``.

    Write into it: one that is moved into its place is not locked, and other writers may take it for a leftover.
    """
    path = Path(path)
    with _temporary(path, _new_file) as temporary:
        yield temporary
        flush(temporary)
        os.umask(mask := os.umask(0))
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
        flush(path.parent)


@contextlib.contextmanager
def temporary_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty folder beside ``path`` for intermediate files; it is removed in the end."""
    with _temporary(Path(path), lambda path: Path(tempfile.mkdtemp(**_name_beside(path)))) as temporary:
        yield temporary


def write_text(path: str | Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def saying_what_failed(path: Path) -> Iterator[None]:
    """Make errors of a full disk, which name no file or a temporary one, name ``path``."""
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


def _name_beside(path: Path) -> dict[str, Any]:
    # The end of the name, since libraries go by it; not all of it, since a name has at most 255 bytes.
    return {"prefix": f"{MARKER}.", "suffix": f".{path.name[-40:]}", "dir": path.parent}


def _new_file(path: Path) -> Path:
    handle, name = tempfile.mkstemp(**_name_beside(path))
    os.close(handle)
    return Path(name)


@contextlib.contextmanager
def _temporary(path: Path, make: Callable[[Path], Path]) -> Iterator[Path]:
    """A file or folder beside ``path``, removed in the end; locked, so that `_tidy` takes no living one for a leftover."""
    with saying_what_failed(path):
        path.parent.mkdir(parents=True, exist_ok=True)
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


@contextlib.contextmanager
def only_writer(path: str | Path, wait: bool = False) -> Iterator[None]:
    """Hold the lock file beside ``path``; where another process holds it, ``wait`` for it or raise UserError.

    A folder whose parent cannot be written, such as a mounted volume, is not locked.
    """
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is None or not os.access(path.parent, os.W_OK):
        yield
        return
    lock = beside(path, "lock")
    with contextlib.closing(_take_lock(lock, path, wait)) as stream:
        try:
            yield
        finally:
            if os.fstat(stream.fileno()).st_size == 0:  # ours is empty
                lock.unlink(missing_ok=True)


def lock_of(temporary: Path, wait: bool = True) -> int | None:
    """Return an open descriptor that holds the lock of a file or folder; None where it cannot be locked."""
    if fcntl is None:
        return None
    descriptor = os.open(temporary, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would be waited for
    try:
        if not _is_lockable(descriptor):
            raise OSError
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # somebody's, or on a file system without locks
        os.close(descriptor)
        return None
    return descriptor


def _take_lock(lock: Path, path: Path, wait: bool) -> IO[bytes]:
    while True:
        stream = os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666), "r+b", buffering=0)
        if not _is_lockable(stream.fileno()):
            stream.close()
            raise UserError(f"{lock} is no file but a pipe or a device; remove it, it is the name of a lock")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            stream.close()
            raise UserError(
                f"another process is writing {path}; wait until it is done, or give another --out"
            ) from None
        except OSError:
            return stream  # a file system without locks
        # The holder before us may have removed the file between our opening and our locking it.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(stream.fileno()), lock.stat()):
                return stream
        stream.close()


def _is_lockable(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def beside(path: Path, role: str) -> Path:
    return path.with_name(f".{path.name}.{role}")
