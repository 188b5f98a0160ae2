"""The released patch strips of HPatches: ``ref``, ``e1`` to ``e5``, ``h1`` to ``h5``, ``t1`` to ``t5`` of every sequence.

Patch k of all sixteen strips of a sequence shows the same point; the views of a point in the store are in that order.
"""

import functools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from patchprint.common.errors import UserError
from patchprint.common.progress import progress
from patchprint.data import splits
from patchprint.data.patch_store import PatchStore
from patchprint.interop.images import read_gray

SIDE = 65
PATCH_SCALE = 10.0  # the regions of HPatches have a radius of 5 sigma
STRIPS = ("ref", *(f"{level}{number}" for level in "eht" for number in range(1, 6)))
Level = Literal["easy", "hard", "tough"]
LEVELS: tuple[Level, ...] = ("easy", "hard", "tough")
Split = Literal["a", "b", "c", "full", "illum", "view"]


def build(
    src: str | Path,
    out: str | Path,
    *,
    split: Split | None = None,
    levels: tuple[Level, ...] = LEVELS,
    mine_labels: bool = False,
    force: bool = False,
) -> None:
    """The released patch strips of HPatches.

    Args:
        src: folder with the sequences (folders like i_ajuntament with ref.png, e1.png ...).
        out: store to write.
        split: keep the published test sequences apart as "test"; of the others, some at the end of the alphabet are held out.
        levels: views to keep beside ref, for training (L2-Net learned from easy and hard); the benchmark needs all.
        mine_labels: mine which patches of a sequence surely differ (DOAP).
        force: replace the store if it exists.
    """
    root = Path(src)
    sequences = sorted(folder for folder in root.iterdir() if (folder / "ref.png").is_file()) if root.is_dir() else []
    if not sequences:
        raise UserError(f"{root} holds no HPatches sequences (folders like i_ajuntament with ref.png, e1.png ...)")
    heights = [len(read_strip(folder / "ref.png")) for folder in sequences]
    blocks, names = map(read_sequence, sequences), [folder.name for folder in sequences]
    write(out, blocks, names, heights, split=split, levels=levels, mine_labels=mine_labels, force=force)


def write(
    out: str | Path,
    sequences: Iterable[np.ndarray],
    names: list[str],
    num_points: list[int],
    *,
    split: Split | None = None,
    levels: Sequence[Level] = LEVELS,
    mine_labels: bool = False,
    force: bool = False,
) -> None:
    """Write sequences (16, N, 65, 65) as a PatchStore whose views are in the order of STRIPS, those of ``levels`` and ref."""
    kept = [number for number, name in enumerate(STRIPS) if name == "ref" or name[0] in {level[0] for level in levels}]
    if len(kept) == 1:
        raise UserError(f"--levels names none of {', '.join(LEVELS)}; a point needs at least two views")
    first = np.cumsum([0, *num_points])
    point = np.concatenate([np.tile(np.arange(first[i], first[i + 1]), len(kept)) for i in range(len(names))])
    scene = np.repeat(np.arange(len(names)), np.array(num_points) * len(kept))
    part = None
    if split is not None:
        test = np.array([is_test(split, name) for name in names])
        part = splits.beside_test(np.arange(len(names)).repeat(num_points), test.repeat(num_points))
    read = progress(sequences, "reading sequences", "sequence", len(names))
    blocks = (block[kept].reshape(-1, SIDE, SIDE) for block in read)
    facts = {"strips": [STRIPS[number] for number in kept], "split": split}
    PatchStore.write(
        out, blocks, point, scene, names, PATCH_SCALE, part=part, mine_labels=mine_labels, facts=facts, force=force
    )


def read_sequence(folder: Path) -> np.ndarray:
    """Read all strips of a sequence, (16, N, 65, 65)."""
    strips = [read_strip(folder / f"{name}.png") for name in STRIPS]
    for name, strip in zip(STRIPS, strips, strict=True):
        if len(strip) != len(strips[0]):
            raise UserError(f"{folder / name}.png holds {len(strip)} patches, but ref.png holds {len(strips[0])}")
    return np.stack(strips)


def read_strip(path: Path, side: int = SIDE) -> np.ndarray:
    """Read an image of patches that stand below each other, (N, side, side)."""
    if not path.is_file():
        raise UserError(f"{path} is missing; a sequence has the sixteen strips {', '.join(STRIPS)}")
    strip = read_gray(path)
    height, width = strip.shape
    if width != side or height % side:
        raise UserError(f"{path} is {width}x{height}; expected patches of {side}x{side} below each other")
    return strip.reshape(-1, side, side)


_PREFIX = {"full": ("i_", "v_"), "illum": ("i_",), "view": ("v_",)}


def is_test(split: Split, sequence: str) -> bool:
    """Return whether a sequence (``i_ajuntament``) is for testing; all sequences of full, illum and view are, or left out."""
    return sequence.startswith(_PREFIX[split]) if split in _PREFIX else sequence in published_splits()[split]


def published_split(sequences: Iterable[str]) -> Split | None:
    """Return the split a, b, c or full whose published test sequences are these and no others; None for any other data."""
    found = set(sequences)
    return next((split for split, names in published_splits().items() if names == found), None)


@functools.cache
def published_splits() -> dict[Split, set[str]]:
    """Return the test sequences of the splits a, b, c and full, as the authors of HPatches fixed them."""
    table = json.loads(Path(__file__).with_name("hpatches_splits.json").read_text(encoding="utf-8"))
    return {split: set(names) for split, names in table.items()}
