"""Image sequences of a plane, with the homographies from the first image to the others.

Two layouts are known: Oxford's ``img1.png`` with ``H1to2p``, and HPatches' ``1.ppm`` with ``H_1_2``.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchprint.common.errors import UserError
from patchprint.interop.images import SUFFIXES, read_gray

_MOST = 99


@dataclass(frozen=True, eq=False)
class ImageSequence:
    """The images of one folder by number, starting at 1, and the homographies from the first to each of the others.

    Shape:
        paths: number -> file; homographies: number -> (3, 3) float64 with last entry 1, from pixels of image 1.
    """

    name: str
    paths: dict[int, Path]
    homographies: dict[int, np.ndarray]

    def read(self, number: int) -> np.ndarray:
        """Pixels of one image, uint8 (H, W)."""
        return read_gray(self.paths[number])


def find_sequences(root: str | Path, chosen: tuple[str, ...] = ()) -> list[ImageSequence]:
    """Find the sequences in the folders below ``root``, or ``root`` itself; ``chosen`` selects some by name."""
    root = Path(root)
    if not root.is_dir():
        raise UserError(f"{root} is not a folder; give the folder that holds the sequences")
    folders = [root] if _image_path(root, 1) else sorted(folder for folder in root.iterdir() if _image_path(folder, 1))
    if not folders:
        raise UserError(f"{root} holds no sequences: folders with img1 and H1to2p, or 1.ppm and H_1_2")
    missing = set(chosen) - {folder.name for folder in folders}
    if missing:
        names = ", ".join(folder.name for folder in folders)
        raise UserError(f"{root} has no sequence {', '.join(sorted(missing))}; it has {names}")
    return [read_sequence(folder) for folder in folders if not chosen or folder.name in chosen]


def read_sequence(folder: Path) -> ImageSequence:
    """Read the homographies and list the image files of one folder."""
    paths = {number: path for number in range(1, _MOST) if (path := _image_path(folder, number))}
    if len(paths) < 2:
        raise UserError(f"{folder} has only one image; a sequence needs img1, img2 and H1to2p")
    homographies = {number: read_homography(_homography_path(folder, number)) for number in paths if number > 1}
    # A folder given as "." has no name of its own; a link keeps the name it has here.
    return ImageSequence(folder.name or folder.resolve().name, paths, homographies)


def read_homography(path: Path) -> np.ndarray:
    """Read a 3 x 3 text file as (3, 3) float64 with last entry 1."""
    if not path.is_file():
        raise UserError(f"{path} is missing; each image after the first needs its homography")
    try:
        matrix = np.loadtxt(path, dtype=np.float64)
    except (ValueError, IndexError):
        matrix = np.zeros(0)
    if (
        matrix.shape != (3, 3)
        or not np.isfinite(matrix).all()
        or abs(np.linalg.det(matrix)) < 1e-12
        or not matrix[2, 2]
    ):
        raise UserError(f"{path} is not a homography; expected 3 lines of 3 numbers that can be inverted")
    return matrix / matrix[2, 2]


def _homography_path(folder: Path, number: int) -> Path:
    other = folder / f"H_1_{number}"
    return other if other.is_file() else folder / f"H1to{number}p"


def _image_path(folder: Path, number: int) -> Path | None:
    stems = (f"img{number}", str(number))
    return next((p for stem in stems for s in sorted(SUFFIXES) if (p := folder / f"{stem}{s}").is_file()), None)
