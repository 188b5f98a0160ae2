"""Cache of predictions on disk: a model is run once over a benchmark's data, and scored any number of times.

The file name is the checksum of everything that decides the contents: the model's weights, the data, the settings, and the code
that makes predictions. Changed weights, data or code therefore never meet an old file.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import patchprint
from patchprint.common.errors import UserError
from patchprint.common.files import atomic_file
from patchprint.common.safe_io import read_npz

Arrays = dict[str, np.ndarray]

# What a prediction passes through on its way: all packages but those that train, report or talk to the user.
_APART = ("cli", "pipelines", "studies", "report", "training", "losses", "web")


class PredictionCache:
    """Arrays by key, in one folder; with ``None`` as folder nothing is cached."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self.hits = 0
        self.misses = 0

    def get(self, key: dict[str, Any], compute: Callable[[], Arrays]) -> Arrays:
        """Get the arrays of ``key`` (any JSON value), computing and storing them if missing."""
        if self.folder is None:
            self.misses += 1
            return compute()
        path = self.folder / f"{checksum_of(key)}.npz"
        stored = _read(path)
        if stored is not None:
            self.hits += 1
            return stored
        self.misses += 1
        arrays = compute()
        with atomic_file(path) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
        return arrays


def checksum_of(key: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


@functools.cache
def code_checksum() -> str:
    """Compute the sha256 of the source code that predictions depend on."""
    root = Path(patchprint.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in _APART:
            digest.update(f"{name.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> Arrays | None:
    """The stored arrays; a damaged file counts as absent, since it can be made again."""
    try:
        return read_npz(path, "a prediction")
    except (OSError, UserError):
        return None
