"""The folder in which uploaded files lie."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path


def bytes_below(folder: Path) -> int:
    """Of all files in a folder and in folders in it."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


def remove_old(folder: Path, kept: Path, seconds: float) -> None:
    """Remove the files below a folder that are older than so many seconds, except for those in ``kept``."""
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and kept not in path.parents and time.time() - path.stat().st_mtime > seconds:
                path.unlink()
