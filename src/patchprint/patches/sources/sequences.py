"""Image sequences with known homographies, in the layout of HPatches or of the Oxford set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchprint.errors import UserError
from patchprint.interop.images import SUFFIXES


@dataclass(frozen=True, eq=False)
class ImageSequence:
    """A reference and five further pictures of one scene; homographies (5, 3, 3) take reference pixels to theirs."""

    name: str
    images: list[Path]
    homographies: np.ndarray


def find_sequences(root: Path, num_images: int = 6) -> list[ImageSequence]:
    """The sequences in the folders below ``root``, or in ``root`` itself.

    HPatches: ``1.ppm`` to ``6.ppm``, ``H_1_2`` to ``H_1_6``. Oxford: ``img1.png`` to ``img6.png``, ``H1to2p`` to ``H1to6p``.
    """
    if not root.is_dir():
        raise UserError(f"{root} is not a folder of image sequences")
    folders = [folder for folder in (root, *sorted(root.iterdir())) if _matrix_path(folder, 2) is not None]
    if not folders:
        raise UserError(
            f"{root} holds no image sequences (1.ppm .. 6.ppm with H_1_2 .., or img1.png .. with H1to2p ..)"
        )
    return [_read(folder, num_images) for folder in folders]


def _read(folder: Path, num_images: int) -> ImageSequence:
    images = [_image_path(folder, number) for number in range(1, num_images + 1)]
    matrices = []
    for number in range(2, num_images + 1):
        path = _matrix_path(folder, number)
        if path is None:
            raise UserError(f"{folder} lacks the homography from image 1 to image {number}")
        try:
            matrix = np.loadtxt(path).reshape(3, 3)
        except ValueError:
            raise UserError(f"{path} is not a 3x3 matrix") from None
        if not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) < 1e-12:
            raise UserError(f"{path} is not a homography: its matrix cannot be inverted")
        matrices.append(matrix)
    return ImageSequence(folder.resolve().name, images, np.stack(matrices))


def _matrix_path(folder: Path, number: int) -> Path | None:
    names = (f"H_1_{number}", f"H1to{number}p")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _image_path(folder: Path, number: int) -> Path:
    for stem in (str(number), f"img{number}"):
        for suffix in sorted(SUFFIXES):
            if (folder / f"{stem}{suffix}").is_file():
                return folder / f"{stem}{suffix}"
    raise UserError(f"{folder} lacks image {number} ({number}.ppm or img{number}.png)")
