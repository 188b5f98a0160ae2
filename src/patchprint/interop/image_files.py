"""Pictures from disk or memory as gray or color arrays, read as COLMAP reads them: EXIF orientation is not applied.

Everything that OpenCV decodes is accepted: gray, color, palette, CMYK, alpha (dropped), 16 bits (reduced to 8). A file that
is no picture, or a picture that is cut short, is refused by name, since half a picture gives half the keypoints silently.
Files may lie in object storage (`interop.object_storage`), and are then given by their URL.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, overload

import numpy as np
from torch import Tensor

from patchprint.common.errors import UserError, require
from patchprint.common.image_codec import decode_color, decode_gray, size_in_header, to_uint8
from patchprint.common.progress import leave_out, note
from patchprint.common.safe_io import leads_outside
from patchprint.interop import object_storage
from patchprint.interop.object_storage import is_url

SUFFIXES = {".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp", ".ppm", ".pgm", ".jp2"}
LONGEST_NAME = 240  # bytes; file systems have 255, and what is named after a photo has an ending more

_CHANNELS = (1, 3, 4)

ImageLike = str | Path | np.ndarray | Tensor


def read_gray(image: ImageLike, exif: bool = False) -> np.ndarray:
    """A picture as gray values.

    Args:
        image: a file, or an array (H, W) or (H, W, 1 | 3 | 4) with RGB order, or a tensor (1 | 3 | 4, H, W); uint8, uint16,
            bool, or float in [0, 1].
        exif: turn a file upright as its EXIF orientation says. Off by default, as in COLMAP; keypoints found in a turned
            picture do not belong to the pixels on disk, so whoever turns it on must record it.

    Shape:
        -> uint8 (H, W)
    """
    if isinstance(image, (str, Path)):
        return decode_gray(_contents(image), str(image), exif)
    array = to_uint8(_as_array(image), "the picture")
    if array.ndim == 3:
        channels = array.shape[2]
        if channels not in _CHANNELS:
            raise UserError(f"the picture has shape {array.shape}; expected (H, W) or (H, W, 1 | 3 | 4)")
        array = array[..., 0] if channels == 1 else to_gray(array[..., :3])
    return np.require(array, requirements=["C", "W"])  # pixels of Pillow may not be written to, of which torch warns


def read_color(image: ImageLike, exif: bool = False) -> np.ndarray:
    """A picture in color, for drawing; the same arguments as `read_gray`.

    Shape:
        -> uint8 (H, W, 3), RGB
    """
    if isinstance(image, (str, Path)):
        return decode_color(_contents(image), str(image), exif)
    array = to_uint8(_as_array(image), "the picture")
    array = array[..., None] if array.ndim == 2 else array
    return np.ascontiguousarray(np.broadcast_to(array[..., :3], (*array.shape[:2], 3)))


@overload
def to_gray(rgb: np.ndarray) -> np.ndarray: ...
@overload
def to_gray(rgb: Tensor) -> Tensor: ...
def to_gray(rgb: np.ndarray | Tensor) -> np.ndarray | Tensor:
    """Gray values of colors, with the weights of ITU-R BT.601 that OpenCV and the JPEG standard use.

    Shape:
        (..., 3) RGB -> (...); uint8 arrays stay uint8, rounded; floats stay floats.
    """
    weights = (0.299, 0.587, 0.114)
    if isinstance(rgb, Tensor):
        return rgb @ rgb.new_tensor(weights)
    gray = rgb @ np.array(weights)
    return np.rint(gray).astype(np.uint8) if rgb.dtype == np.uint8 else gray


def limit(image: np.ndarray, max_side: int) -> np.ndarray:
    """The image (H, W), made smaller where one of its sides is longer than ``max_side``; both sides by the same factor."""
    cv2 = require("cv2", extra="images")
    factor = max_side / max(image.shape)
    if factor >= 1:
        return image
    if round(min(image.shape) * factor) < 1:  # a line, of which a pixel must be left
        height, width = (max(1, round(side * factor)) for side in image.shape)
        return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    return cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)


def list_images(folder: str | Path) -> list[str]:
    """Names of the pictures below a folder or URL, relative to it with forward slashes, sorted; links to files are followed."""
    names, unusable = _pictures_below(folder)
    for name, problem in unusable.items():
        note(f"left out: {name!r} in {folder} has {problem}; rename it")
    if not names:
        raise UserError(f"{folder} holds no pictures ({', '.join(sorted(SUFFIXES))})")
    return names


def unusable_names(folder: str | Path) -> list[str]:
    """Names of the pictures that `list_images` leaves out."""
    return list(_pictures_below(folder)[1])


def _pictures_below(folder: str | Path) -> tuple[list[str], dict[str, str]]:
    """Names of pictures that can be used, and of the others with what is wrong with them; both sorted."""
    found = object_storage.list_files(folder) if is_url(folder) else _files_below(Path(folder))
    names = sorted(
        name
        for name in found
        if Path(name).suffix.lower() in SUFFIXES and not any(part.startswith(".") for part in name.split("/"))
    )
    unusable = {name: problem for name in names if (problem := problem_of_name(name))}
    return [name for name in names if name not in unusable], unusable


def image_in(folder: str | Path, name: str) -> str | Path:
    """Where the picture ``name`` of `list_images` lies: a file, or a URL."""
    return f"{str(folder).rstrip('/')}/{name}" if is_url(folder) else Path(folder) / name


def local_path(image: ImageLike) -> Path | None:
    """The file that an image is; None for one in memory or in object storage."""
    return Path(image) if isinstance(image, (str, Path)) and not is_url(image) else None


def turned_by_exif(image: str | Path) -> bool:
    """Whether the EXIF orientation of a file changes what is seen of it."""
    data = _contents(image)
    turned, stored = (decode_gray(data, str(image), exif) for exif in (True, False))
    return not np.array_equal(turned, stored)


def image_size(path: str | Path) -> tuple[int, int]:
    """Width and height of a picture; JPEG, PNG, BMP and WebP files say it in their header, others are decoded."""
    announced = size_in_header(_contents(path))
    if announced is not None:
        return announced
    height, width = read_gray(path).shape
    return width, height


def find_mask(folder: str | Path, name: str) -> Path | None:
    """The mask of a photo: ``NAME.png``, as COLMAP calls it (photo.jpg.png), or photo.png; None where there is none."""
    photo = Path(folder) / name
    return next((path for path in (Path(f"{photo}.png"), photo.with_suffix(".png")) if path.is_file()), None)


def readable_images(folder: str | Path, names: Iterable[str], strict: bool = False) -> list[str]:
    """Those of the photos that can be read; the others are named on stderr, or with ``strict`` the first is an error."""
    kept = []
    for name in names:
        try:
            read_gray(Path(folder) / name)
            kept.append(name)
        except (UserError, OSError) as error:
            leave_out(error, strict)
    return kept


def problem_of_name(name: str) -> str | None:
    """Why lists and databases of names, or files named after photos, cannot have this name; None where they can."""
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        return "a line break or bytes that are no UTF-8 in its name"
    if leads_outside(name):
        return "a name that would be a path outside of it"
    if max(len(part.encode()) for part in name.split("/")) > LONGEST_NAME:
        return f"a name of more than {LONGEST_NAME} bytes"
    return None


def _files_below(root: Path) -> Iterator[str]:
    if not root.is_dir():
        raise UserError(f"{root} is not a folder of photos")
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from ((Path(place) / name).relative_to(root).as_posix() for name in files)


def _contents(image: str | Path) -> bytes:
    if is_url(image):
        return object_storage.read(str(image))
    path = Path(image)
    if path.is_dir():
        raise UserError(f"{path} is a folder; expected a picture")
    if not path.exists():
        kind = "a link to nowhere" if path.is_symlink() else "not there"
        raise UserError(f"{path} is {kind}; expected a picture")
    if not path.is_file():  # a pipe would be waited for
        raise UserError(f"{path} is no file but a pipe, a socket or a device; expected a picture")
    return path.read_bytes()


def _as_array(image: Any) -> np.ndarray:
    if image is None:
        raise UserError(
            "the picture is None, which is what cv2.imread gives where it cannot read a file; check its path"
        )
    if isinstance(image, (list, tuple)) and any(isinstance(each, (str, Path)) for each in image):
        raise UserError(f"{len(image)} paths are given where one image is expected; go through them one by one")
    if isinstance(image, Tensor):
        is_planar = image.ndim == 3 and image.shape[0] in _CHANNELS and image.shape[2] not in _CHANNELS
        image = (image.permute(1, 2, 0) if is_planar else image).detach().cpu().numpy()
    array = np.asarray(image)
    if array.ndim == 0:
        raise UserError(f"the picture is given as {type(image).__name__}; expected a path, an array or a tensor")
    if array.ndim not in (2, 3):
        raise UserError(f"the picture has shape {array.shape}; expected (H, W) or (H, W, 1 | 3 | 4)")
    return array
