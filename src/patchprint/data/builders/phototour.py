"""The UBC / Brown patches (Photo Tour): Liberty, Notre Dame, Yosemite, found with DoG or Harris.

``patchesNNNN.bmp`` are sheets of 16 x 16 patches of 64 x 64, row by row; the last one is padded. Line i of ``info.txt`` begins
with the point of patch i. ``m50_*.txt`` list pairs: columns 0 and 3 are patches, 1 and 4 their points, and a pair matches
where the points are equal (method-facts, section 9).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from patchprint.common.errors import UserError
from patchprint.common.progress import progress
from patchprint.data.patch_store import PatchStore
from patchprint.interop.images import decode_gray

SIDE = 64
GRID = 16
PER_SHEET = GRID * GRID
PATCH_SCALE = 12.0  # as kornia and the published networks take it


def build(src: str | Path, out: str | Path, *, force: bool = False) -> None:
    """A set of the UBC / Brown patches (Photo Tour), with its pair lists.

    Args:
        src: folder with patches*.bmp, info.txt and m50_*.txt.
        out: store to write.
        force: replace the store if it exists.
    """
    root = Path(src)
    point = read_numbers(root / "info.txt", (0,))[:, 0]
    sheets = find_sheets(root, len(point))
    pairs = {path.stem: read_pairs(path, point) for path in sorted(root.glob("m50_*.txt"))}
    PatchStore.write(
        out,
        read_sheets(sheets, len(point)),
        point,
        np.zeros(len(point), np.int64),
        scene_names=[root.resolve().name],
        patch_scale=PATCH_SCALE,
        pairs=pairs,
        force=force,
    )


def find_sheets(root: Path, count: int) -> list[Path]:
    """Return the sheets of ``count`` patches; none may be missing or left over."""
    found = sorted(root.glob("patches*.bmp"))
    expected = [root / f"patches{number:04d}.bmp" for number in range(-(-count // PER_SHEET))]
    for path in expected:
        if path not in found:
            raise UserError(f"{path} is missing: info.txt names {count} patches, which fill {len(expected)} sheets")
    if len(found) > len(expected):
        raise UserError(f"{root / 'info.txt'} names only {count} patches, but the {len(found)} sheets hold more")
    return expected


def read_sheets(sheets: list[Path], count: int) -> Iterator[np.ndarray]:
    """Yield blocks of patches (B, 64, 64), sheet by sheet, without the padding of the last one."""
    for number, path in enumerate(progress(sheets, "reading sheets", "sheet")):
        data = path.read_bytes()
        if len(data) < int.from_bytes(data[2:6], "little") or data[:2] != b"BM":
            raise UserError(f"{path} is cut short or no BMP file; unpack the set again")
        sheet = decode_gray(data, str(path))
        if sheet.shape != (GRID * SIDE, GRID * SIDE):
            raise UserError(f"{path} is {sheet.shape[1]}x{sheet.shape[0]}, a sheet is {GRID * SIDE}x{GRID * SIDE}")
        patches = sheet.reshape(GRID, SIDE, GRID, SIDE).swapaxes(1, 2).reshape(-1, SIDE, SIDE)
        yield patches[: count - number * PER_SHEET]


def read_pairs(path: Path, point: np.ndarray) -> np.ndarray:
    """Read a pair list as (L, 3): patch a, patch b, whether they show the same point."""
    rows = read_numbers(path, (0, 1, 3, 4))
    wrong = (rows[:, (0, 2)] < 0) | (rows[:, (0, 2)] >= len(point))
    if wrong.any():
        line = int(np.flatnonzero(wrong.any(1))[0]) + 1
        raise UserError(f"{path} names a patch in line {line} that the set of {len(point)} patches does not have")
    return np.stack([rows[:, 0], rows[:, 2], rows[:, 1] == rows[:, 3]], 1)


def read_numbers(path: Path, columns: tuple[int, ...]) -> np.ndarray:
    """Read some columns of a table of whole numbers, (L, columns) int64."""
    if not path.is_file():
        raise UserError(f"{path} is missing; a Photo Tour set holds patches*.bmp, info.txt and m50_*.txt")
    try:
        rows = np.loadtxt(path, usecols=columns, ndmin=2)
    except (ValueError, IndexError):
        raise UserError(f"{path} is damaged: every line needs at least {max(columns) + 1} numbers") from None
    if not (np.abs(rows) < 2**53).all():  # "nan" is read as a number, and would become a point
        line = int(np.flatnonzero(~(np.abs(rows) < 2**53).all(1))[0]) + 1
        raise UserError(f"{path} is damaged: line {line} holds something that is no number of a patch or point")
    if len(rows) == 0:
        raise UserError(f"{path} is empty")
    return rows.astype(np.int64)
