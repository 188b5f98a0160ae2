"""Read, write and verify the ``manifest.json`` of a store: its kind, contents and file sizes.

A store appears under its name only when it is complete. Opening it compares the sizes of its files, which catches truncated
copies; ``verify`` compares checksums.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from patchprint.common import files
from patchprint.common.errors import UserError, parsing
from patchprint.common.provenance import sha256_of_file
from patchprint.common.safe_io import read_json, safe_join

VERSION = 3  # 2: every store says its patch scale; 3: a published test part is "test", not "val"
LARGEST_SCALE = 10_000.0  # sigma; such a patch is wider than any image
NAME = "manifest.json"
MADE_BY = "patchprint data build"
# What the manifest of each kind of store lists by name.
LISTS = {"patches": ("scenes", "pairs"), "tracks": ("scenes",), "images": ("classes",)}
REMEDY = "copy or build the store again"


def write(folder: Path, kind: str, facts: dict[str, Any]) -> None:
    """Record ``facts`` and the size and checksum of every file in ``folder``; call it last."""
    listing = {
        file.name: {"bytes": file.stat().st_size, "sha256": sha256_of_file(file)}
        for file in sorted(folder.iterdir())
        if file.name != files.MARKER
    }
    files.write_json(folder / NAME, {"kind": kind, "version": VERSION, **facts, "files": listing})


def read(folder: str | Path, kind: str | None = None) -> dict[str, Any]:
    """Read the manifest of a store and check the sizes of its files."""
    folder = Path(folder)
    path = folder / NAME
    if not path.is_file():
        raise UserError(f"{folder} is not a patch store: it has no {NAME}; make one with patchprint data build")
    with parsing(path, "the manifest of a patch store", REMEDY):
        manifest = read_json(path, "the manifest of a patch store")
        found, version, listing = manifest["kind"], manifest["version"], dict(manifest["files"])
        if version != VERSION:
            raise UserError(f"{path} has version {version}, patchprint reads {VERSION}; build the store again")
        if kind is not None and found != kind:
            raise UserError(f"{folder} holds {found!r}, expected {kind!r}")
        for name, entry in listing.items():
            file, size = safe_join(folder, name, path), entry["bytes"]
            if not file.is_file() or file.stat().st_size != size:
                raise UserError(f"{file} is missing or not {size} bytes long, as {path} says; {REMEDY}")
        scale = manifest["patch_scale"] if found in LISTS else 1.0
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale <= LARGEST_SCALE:
            raise UserError(f"{path} is damaged: its patch scale is {str(scale)[:40]}; {REMEDY}")
        for word in LISTS.get(found, ()):
            names = manifest[word]
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise UserError(f"{path} is damaged: its {word} are no list of names; {REMEDY}")
    return manifest


def verify(folder: str | Path) -> None:
    """Raise UserError naming the first file whose contents differ from the manifest."""
    folder = Path(folder)
    for name, entry in read(folder)["files"].items():
        if sha256_of_file(folder / name) != entry["sha256"]:
            raise UserError(f"{folder / name} does not have the checksum it was written with; build the store again")


def load(
    folder: Path,
    name: str,
    kind: str,
    shape: tuple[int | None, ...],
    least: int = 0,
    below: int | None = None,
    mode: Literal["r", "c"] = "r",
) -> np.ndarray:
    """Map an array of the store, read-only or copy-on-write, after a check that it is what the store needs.

    Args:
        folder: of the store.
        name: of the array, which lies in ``NAME.npy``.
        kind: characters of ``numpy.dtype.kind``, one of which it must have.
        shape: that it must have; None is any length.
        least: the least integer that it may hold, where ``below`` is given.
        below: its integers must be smaller.
        mode: of the map; the file itself never changes.
    """
    path = folder / f"{name}.npy"
    with parsing(path, "an array of a store", REMEDY):
        array = np.load(path, mmap_mode=mode, allow_pickle=False)
    fits = array.ndim == len(shape) and all(s in (None, n) for s, n in zip(shape, array.shape, strict=True))
    if array.dtype.kind not in kind or not fits:
        wanted = "x".join("any" if side is None else str(side) for side in shape)
        have = "x".join(map(str, array.shape))
        raise UserError(f"{path} is damaged: it holds {have} of {array.dtype}, expected {wanted}; {REMEDY}")
    if below is not None and array.size and not least <= int(array.min()) <= int(array.max()) < below:
        raise UserError(f"{path} is damaged: it holds numbers that are not {least} to {below - 1}; {REMEDY}")
    return array


def save(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as ``NAME.npy``."""
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(values), allow_pickle=False)


def save_blocks(folder: Path, name: str, blocks: Iterable[np.ndarray], count: int) -> tuple[int, ...]:
    """Write an array of ``count`` patches or images, uint8, block by block; returns the shape of one.

    Plain writing, since a memory-mapped file on a full disk would end the process instead of raising an error.
    """
    shape: tuple[int, ...] = ()
    written = 0
    with open(folder / f"{name}.npy", "wb") as stream:
        for block in blocks:
            if written == 0:
                shape = block.shape[1:]
                header = {"descr": "|u1", "fortran_order": False, "shape": (count, *shape)}
                np.lib.format.write_array_header_1_0(stream, header)
            if written + len(block) > count:
                raise UserError(f"there are more {name} than the {count} that the point list names")
            stream.write(np.ascontiguousarray(block, np.uint8).data)
            written += len(block)
    if written != count:
        raise UserError(f"the point list names {count} {name}, but there are only {written}")
    return shape


def megabytes(manifest: dict[str, Any]) -> float:
    """Size of all files of a store in MiB."""
    return round(sum(entry["bytes"] for entry in manifest["files"].values()) / 2**20, 2)
