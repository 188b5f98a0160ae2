"""Predictions on disk: a model is run once over a benchmark's data, and scored as often as one likes.

The file name is the checksum of everything that decides the contents: the model's weights, the data, the settings of the
export and the version of patchprint. Changed weights or data therefore never meet an old file.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import patchprint
from patchprint.files import atomic_file

Arrays = dict[str, np.ndarray]


def default_folder() -> Path:
    """``PATCHPRINT_CACHE``, else ``~/.cache/patchprint``."""
    return Path(os.environ.get("PATCHPRINT_CACHE") or Path.home() / ".cache" / "patchprint") / "predictions"


class PredictionCache:
    """Arrays by key, in one folder; ``None`` as folder computes everything anew and keeps nothing."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.hits = 0
        self.misses = 0

    def get(self, key: dict[str, Any], compute: Callable[[], Arrays]) -> Arrays:
        """The arrays stored under ``key`` (anything that JSON can write), computed and stored if they are not there."""
        if self.folder is None:
            self.misses += 1
            return compute()
        text = json.dumps({**key, "version": patchprint.__version__}, sort_keys=True)
        path = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.npz"
        stored = _read(path)
        if stored is not None:
            self.hits += 1
            return stored
        self.misses += 1
        arrays = compute()
        with atomic_file(path) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
        return arrays


def _read(path: Path) -> Arrays | None:
    """The stored arrays; a damaged file counts as absent, since it can be made again."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError):
        return None
