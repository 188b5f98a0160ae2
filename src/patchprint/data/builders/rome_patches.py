"""RomePatches: 51 x 51 patches in groups of ten that show one point, a training and a test part.

``train/`` and ``test/`` hold the patches as single images, taken in the order of their names, or as strips 51 pixels wide
(patches below each other). Ten after each other are one group.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from patchprint.common.errors import UserError
from patchprint.common.progress import progress
from patchprint.data import splits
from patchprint.data.builders.hpatches_patches import read_strip
from patchprint.data.patch_store import PatchStore
from patchprint.interop.images import list_images

SIDE = 51
GROUP = 10


def build(src: str | Path, out: str | Path, *, patch_scale: float = 12.0, force: bool = False) -> None:
    """RomePatches; its test part is "test"; the last groups of the training part are held out.

    Args:
        src: folder with train/ and test/.
        out: store to write.
        patch_scale: side of a patch in sigma, as far as it is known.
        force: replace the store if it exists.
    """
    root = Path(src)
    parts = [root / "train", root / "test"]
    names = {folder: list_images(folder) for folder in parts}
    counts = [_count(folder, names[folder]) for folder in parts]
    point = np.arange(sum(counts)) // GROUP
    scene = np.repeat([0, 1], counts)
    scene_of_group = scene[::GROUP]
    part = splits.beside_test(scene_of_group, scene_of_group == 1)
    blocks = (patches for folder in parts for patches in _read(folder, names[folder]))
    PatchStore.write(out, blocks, point, scene, [folder.name for folder in parts], patch_scale, part=part, force=force)


def _read(folder: Path, names: list[str]) -> Iterator[np.ndarray]:
    for name in progress(names, f"reading {folder.name}", "file"):
        yield read_strip(folder / name, SIDE)


def _count(folder: Path, names: list[str]) -> int:
    count = sum(len(block) for block in _read(folder, names))
    if count % GROUP:
        raise UserError(f"{folder} holds {count} patches, which is no multiple of {GROUP}; some are missing")
    return count
