"""Sequences of pictures of a plane with the homographies from the first picture to the others.

Two layouts are known: Oxford's ``img1.png`` with ``H1to2p``, and HPatches' ``1.ppm`` with ``H_1_2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchprint.benchmarks.setup import Setup
from patchprint.errors import UserError
from patchprint.interop.images import read_gray

_SUFFIXES = (".png", ".ppm", ".pgm", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")


@dataclass(frozen=True, eq=False)
class Sequence:
    """The first picture and the others, with the homography from the first to each.

    Shape:
        images: number -> uint8 (H, W), always with 1; homographies: number -> (3, 3) float64.
    """

    name: str
    images: dict[int, np.ndarray]
    homographies: dict[int, np.ndarray]


def list_sequences(data: Path, chosen: tuple[str, ...] = ()) -> list[Path]:
    """The sequence folders in ``data``, which may itself be one; ``chosen`` names some of them."""
    if not data.is_dir():
        raise UserError(f"{data} is not a folder; give --data the folder that holds the sequences")
    found = [data] if _image(data, 1) else sorted(folder for folder in data.iterdir() if _image(folder, 1))
    if not found:
        raise UserError(f"{data} holds no sequences: no folder in it has a picture img1 and homographies H1to2p ...")
    missing = set(chosen) - {folder.name for folder in found}
    if missing:
        raise UserError(
            f"{data} has no sequence {', '.join(sorted(missing))}; it has {', '.join(f.name for f in found)}"
        )
    return [folder for folder in found if not chosen or folder.name in chosen]


def read_sequence(folder: Path, setup: Setup) -> Sequence | None:
    """Pictures and homographies of one folder; None where ``skip_bad`` leaves fewer than two pictures."""
    files = {number: path for number in range(1, 100) if (path := _image(folder, number))}
    if len(files) < 2:
        raise UserError(f"{folder} has only one picture; a sequence needs img1, img2 and H1to2p")
    homographies = {number: read_homography(_homography(folder, number)) for number in files if number > 1}
    images: dict[int, np.ndarray] = {}
    for number, path in files.items():
        try:
            images[number] = read_gray(path)
        except ValueError:
            if not setup.skip_bad:
                raise
            setup.skipped.append(f"{folder.name}/{path.name}")
    if 1 not in images or len(images) < 2:
        return None
    return Sequence(folder.name, images, {k: h for k, h in homographies.items() if k in images})


def read_homography(path: Path) -> np.ndarray:
    """A 3 x 3 text file -> (3, 3) float64 with last entry 1."""
    if not path.is_file():
        raise UserError(f"{path} is missing; each picture after the first needs its homography")
    try:
        matrix = np.loadtxt(path, dtype=np.float64)
    except ValueError:
        matrix = np.zeros(0)
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) < 1e-12:
        raise UserError(f"{path} is not a homography; expected 3 lines of 3 numbers that can be inverted")
    return matrix / matrix[2, 2]


def _homography(folder: Path, number: int) -> Path:
    other = folder / f"H_1_{number}"
    return other if other.is_file() else folder / f"H1to{number}p"


def _image(folder: Path, number: int) -> Path | None:
    stems = (f"img{number}", str(number))
    return next((p for stem in stems for s in _SUFFIXES if (p := folder / f"{stem}{s}").is_file()), None)
