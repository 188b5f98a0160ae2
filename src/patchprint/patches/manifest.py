"""The ``manifest.json`` of a store: what kind it is, how much it holds, and how large every file must be.

A store is a folder that appears under its name only when it is complete. Opening it compares the sizes of its files with
the manifest, which catches truncated copies at once; ``verify`` also reads everything and compares checksums.
"""

from __future__ import annotations

import json
import mmap
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint import files
from patchprint.errors import UserError
from patchprint.provenance import sha256_of_file

VERSION = 3  # 2: every store says its patch scale; 3: a published test part is "test", not "val"
NAME = "manifest.json"
MADE_BY = "patchprint data build"


def write(folder: Path, kind: str, facts: dict[str, Any]) -> None:
    """Record ``facts`` and the size and checksum of every file in ``folder``; call it last."""
    listing = {
        file.name: {"bytes": file.stat().st_size, "sha256": sha256_of_file(file)}
        for file in sorted(folder.iterdir())
        if file.name != files.MARKER
    }
    files.write_json(folder / NAME, {"kind": kind, "version": VERSION, **facts, "files": listing})


def read(folder: str | Path, kind: str | None = None) -> dict[str, Any]:
    """The manifest of a store whose files all have the recorded size."""
    folder = Path(folder)
    path = folder / NAME
    if not path.is_file():
        raise UserError(f"{folder} is not a patch store: it has no {NAME}; make one with patchprint data build")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        found, version, listing = manifest["kind"], manifest["version"], manifest["files"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged; build the store again") from None
    if version != VERSION:
        raise UserError(f"{path} has version {version}, this patchprint reads version {VERSION}; build the store again")
    if kind is not None and found != kind:
        raise UserError(f"{folder} holds {found!r}, expected {kind!r}")
    for name, entry in listing.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != entry["bytes"]:
            raise UserError(f"{file} is missing or not {entry['bytes']} bytes long; copy or build the store again")
    return manifest


def new_store(folder: str | Path, force: bool) -> AbstractContextManager[Path]:
    """A temporary folder that becomes the store when all is written."""
    return files.atomic_folder(folder, MADE_BY, force)


def refuse_overwrite(folder: str | Path, force: bool) -> None:
    """Raise ValueError where `new_store` would."""
    files.refuse_folder(folder, MADE_BY, force)


def verify(folder: str | Path) -> None:
    """Raise ValueError naming the first file whose contents differ from the manifest."""
    folder = Path(folder)
    for name, entry in read(folder)["files"].items():
        if sha256_of_file(folder / name) != entry["sha256"]:
            raise UserError(f"{folder / name} does not have the checksum it was written with; build the store again")


def load(folder: Path, name: str, in_memory: bool = False) -> np.ndarray:
    """One array of the store, memory-mapped unless it is wanted in memory."""
    return np.load(folder / f"{name}.npy", mmap_mode=None if in_memory else "r", allow_pickle=False)


def load_tensor(folder: Path, name: str) -> Tensor:
    """One array of the store as a tensor whose memory is the mapped file; the file never changes with it."""
    return torch.from_numpy(np.load(folder / f"{name}.npy", mmap_mode="c", allow_pickle=False))


def save(folder: Path, name: str, value: np.ndarray) -> None:
    np.save(folder / f"{name}.npy", np.ascontiguousarray(value), allow_pickle=False)


def expect_random_reads(mapped: np.ndarray) -> None:
    """Tell the system not to read ahead: single patches of a huge file are wanted, not their neighbours."""
    pages = getattr(mapped, "_mmap", None)
    if pages is not None and hasattr(mmap, "MADV_RANDOM"):
        pages.madvise(mmap.MADV_RANDOM)


def megabytes(manifest: dict[str, Any]) -> float:
    """Size of all files of a store in MiB."""
    return round(sum(entry["bytes"] for entry in manifest["files"].values()) / 2**20, 2)
