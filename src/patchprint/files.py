"""Writing files so that a crash, a full disk or a second writer never destroys what was there before."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchprint.errors import UserError


@contextlib.contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success flush it to disk and rename it to ``path``."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush(temporary)
        temporary.chmod(0o666 & ~_current_umask())
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | Path, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; on success it takes the name ``path`` (an old one goes only with ``force``)."""
    path = Path(path)
    refuse_overwrite(path, force)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        temporary.chmod(0o777 & ~_current_umask())
        if path.exists():
            _retire(path)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def refuse_overwrite(path: str | Path, force: bool) -> None:
    """Raise ValueError where ``path`` exists and ``force`` was not given."""
    if Path(path).exists() and not force:
        raise UserError(f"{path} exists already; give another --out, or --force to replace it")


def _retire(path: Path) -> None:
    # Renamed first, so that the final name is never seen half deleted.
    grave = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    path.replace(grave / path.name)
    shutil.rmtree(grave, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
