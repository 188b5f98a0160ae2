"""Locks between processes that write: lock files beside folders, and locks of temporary files."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from patchprint.common.errors import UserError

try:
    import fcntl
except ImportError:  # Windows: one writer at a time is then up to the caller
    fcntl = None  # type: ignore[assignment]


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
    """An open descriptor that holds the lock of a file or folder; None where it cannot be had."""
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
