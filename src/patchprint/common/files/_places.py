"""Checks of output paths, and the cache folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from patchprint.common.errors import UserError


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
    """A folder for what can be made or fetched again, below ``PATCHPRINT_CACHE`` or ``~/.cache/patchprint``."""
    root = os.environ.get("PATCHPRINT_CACHE") or Path.home() / ".cache" / "patchprint"
    return Path(root).expanduser() / name
