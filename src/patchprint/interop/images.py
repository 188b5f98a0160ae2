"""Images from files, URLs, bytes and arrays as gray or color arrays, and the names and sizes of image files.

Training and use decode here, with OpenCV, so that both see the same pixels: gray, color, palette, CMYK, alpha (dropped), 16
bits (reduced to 8). As in COLMAP, EXIF orientation is not applied by default. A file that is no image, or an image that is cut
short, is refused by name, since half an image gives half the keypoints silently. Files in object storage are given by URL.
"""

import contextlib
import os
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, overload

import numpy as np
from torch import Tensor

from patchprint.common.errors import UserError, parsing, require
from patchprint.common.progress import note, skip_or_raise
from patchprint.common.safe_io import escapes_folder

SUFFIXES = {".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp", ".ppm", ".pgm", ".jp2"}
LONGEST_NAME = 240  # bytes; file systems have 255, and what is named after an image has an ending more

# Characters, devices and endings that the names of files cannot have there.
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)|[. ]$', re.IGNORECASE)
_CHANNELS = (1, 3, 4)
# Deflate packs a byte into a 1032nd of one, and a byte of a PNG file may hold eight pixels.
_MAX_PIXELS_PER_BYTE = 8 * 1032
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
_JPEG_APP1, _GPS = 0xE1, 0x8825  # where EXIF data begin, and the positions in them
_EXIF_WITHIN = 1 << 17  # bytes; a segment has at most half of it
_JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # markers of a frame header

ImageLike = str | Path | np.ndarray | Tensor


def read_gray(image: ImageLike, exif: bool = False) -> np.ndarray:
    """Read an image as gray values.

    Args:
        image: a file, a URL, or an array (H, W) or (H, W, 1 | 3 | 4) with RGB order, or a tensor (1 | 3 | 4, H, W); uint8,
            uint16, bool, or float in [0, 1].
        exif: rotate a file upright as its EXIF orientation says. Off by default, as in COLMAP; keypoints found in a rotated
            image do not belong to the pixels on disk, so whoever turns it on must record it.

    Shape:
        -> uint8 (H, W)
    """
    if isinstance(image, (str, Path)):
        return decode_gray(_contents(image), str(image), exif)
    array = _as_array(image)
    if array.ndim == 3:
        channels = array.shape[2]
        if channels not in _CHANNELS:
            raise UserError(f"the image has shape {array.shape}; expected (H, W) or (H, W, 1 | 3 | 4)")
        array = array[..., 0] if channels == 1 else to_gray(array[..., :3])
    return np.require(array, requirements=["C", "W"])  # pixels of Pillow may not be written to, of which torch warns


def read_color(image: ImageLike, exif: bool = False) -> np.ndarray:
    """Read an image in color, for drawing; the same arguments as `read_gray`.

    Shape:
        -> uint8 (H, W, 3), RGB
    """
    if isinstance(image, (str, Path)):
        return decode_color(_contents(image), str(image), exif)
    array = _as_array(image)
    array = array[..., None] if array.ndim == 2 else array
    return np.ascontiguousarray(np.broadcast_to(array[..., :3], (*array.shape[:2], 3)))


def decode_gray(data: bytes | np.ndarray, name: str, exif: bool = False) -> np.ndarray:
    """Decode an image file in memory to gray values.

    Args:
        data: contents of the file.
        name: what error messages call it.
        exif: rotate the image as its EXIF orientation says.

    Shape:
        -> uint8 (H, W)
    """
    return _decode(bytes(data), name, exif, "IMREAD_GRAYSCALE")


def decode_color(data: bytes | np.ndarray, name: str, exif: bool = False) -> np.ndarray:
    """Decode an image file in memory to colors; the same arguments as `decode_gray`.

    Shape:
        -> uint8 (H, W, 3), RGB
    """
    return np.ascontiguousarray(_decode(bytes(data), name, exif, "IMREAD_COLOR")[..., ::-1])


def encode_image(image: np.ndarray, suffix: str = ".png", quality: int | None = None) -> bytes:
    """Encode a uint8 image, gray (H, W) or RGB (H, W, 3), in the format of a suffix; ``quality`` is that of JPEG."""
    cv2 = require("cv2", extra="images")
    options = [] if quality is None else [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, 1]
    done, data = cv2.imencode(suffix, image if image.ndim == 2 else image[..., ::-1], options)
    if not done:
        raise UserError(f"an image of shape {image.shape} cannot be encoded as {suffix}")
    return data.tobytes()


@overload
def to_gray(rgb: np.ndarray) -> np.ndarray: ...
@overload
def to_gray(rgb: Tensor) -> Tensor: ...
def to_gray(rgb: np.ndarray | Tensor) -> np.ndarray | Tensor:
    """Convert colors to gray values, with the weights of ITU-R BT.601 that OpenCV and the JPEG standard use.

    Shape:
        (..., 3) RGB -> (...); uint8 arrays stay uint8, rounded; floats stay floats.
    """
    weights = (0.299, 0.587, 0.114)
    if isinstance(rgb, Tensor):
        return rgb @ rgb.new_tensor(weights)
    gray = rgb @ np.array(weights)
    return np.rint(gray).astype(np.uint8) if rgb.dtype == np.uint8 else gray


def limit_size(image: np.ndarray, max_side: int) -> np.ndarray:
    """Shrink an image (H, W) or (H, W, C) where one of its sides is longer than ``max_side``; both sides by one factor."""
    factor = max_side / max(image.shape)
    if factor >= 1:
        return image
    cv2 = require("cv2", extra="images")
    if round(min(image.shape[:2]) * factor) < 1:  # a line, of which a pixel must be left
        height, width = (max(1, round(side * factor)) for side in image.shape[:2])
        return cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    return cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)


def image_size(path: str | Path) -> tuple[int, int]:
    """Read width and height of an image; JPEG, PNG, BMP and WebP files say it in their header, others are decoded."""
    if announced := read_header_size(_contents(path)):
        return announced
    height, width = read_gray(path).shape
    return width, height


def read_header_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height in the header of a JPEG, PNG, BMP or WebP file; None for other files.

    Pillow is not used here: it refuses large aerial images, and takes memory for the whole canvas of a WebP file.
    """
    if data.startswith(_PNG):
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if data.startswith(b"BM"):
        return int.from_bytes(data[18:22], "little"), abs(int.from_bytes(data[22:26], "little", signed=True))
    if data.startswith(_JPEG):
        for marker, start, _ in _jpeg_segments(data):
            if marker in _JPEG_FRAMES:  # one byte of precision, two of height, two of width
                return int.from_bytes(data[start + 3 : start + 5], "big"), int.from_bytes(
                    data[start + 1 : start + 3], "big"
                )
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return None
    if data[12:16] == b"VP8X":  # extended
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if data[12:16] == b"VP8L":  # lossless: 14 bits each, after a signature byte
        both = int.from_bytes(data[21:25], "little")
        return 1 + (both & 0x3FFF), 1 + (both >> 14 & 0x3FFF)
    return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF


def list_images(folder: str | Path) -> list[str]:
    """List the images below a folder or URL, relative to it with forward slashes, sorted; links to files are followed."""
    names, unusable = _images_below(folder)
    for name, problem in unusable.items():
        note(f"left out: {name!r} in {folder} has {problem}; rename it")
    if not names:
        raise UserError(f"{folder} holds no images ({', '.join(sorted(SUFFIXES))})")
    return names


def unusable_names(folder: str | Path) -> list[str]:
    """List the images that `list_images` leaves out."""
    return list(_images_below(folder)[1])


def readable_images(folder: str | Path, strict: bool = False) -> list[str]:
    """List the images that can be read; the others are named on stderr, or with ``strict`` the first is an error.

    Raises:
        UserError: there is none.
    """
    kept = []
    for name in list_images(folder):
        try:
            read_gray(Path(folder) / name)
            kept.append(name)
        except (UserError, OSError) as error:
            skip_or_raise(error, strict)
    if not kept:
        raise UserError(f"none of the images in {folder} could be read")
    return kept


def find_mask(folder: str | Path, name: str) -> Path | None:
    """Find the mask of an image: ``NAME.png``, as COLMAP calls it (a.jpg.png), or a.png; None where there is none."""
    image = Path(folder) / name
    return next((path for path in (Path(f"{image}.png"), image.with_suffix(".png")) if path.is_file()), None)


def is_url(place: object) -> bool:
    """Whether a place is a URL, not a file or folder."""
    return isinstance(place, str) and "://" in place


def path_or_url(text: str) -> str | Path:
    """Convert a command-line argument to a path, unless it is a URL."""
    return text if is_url(text) else Path(text)


def join_image_path(folder: str | Path, name: str) -> str | Path:
    """Join a folder or URL and the name of an image of `list_images`."""
    return f"{str(folder).rstrip('/')}/{name}" if is_url(folder) else Path(folder) / name


def local_path(image: ImageLike) -> Path | None:
    """Return the file that an image is; None for one in memory or in object storage."""
    return Path(image) if isinstance(image, (str, Path)) and not is_url(image) else None


def is_rotated_by_exif(image: str | Path) -> bool:
    """Whether the EXIF orientation of a file changes its pixels."""
    return not np.array_equal(read_gray(image, exif=True), read_gray(image))


def read_gps(path: str | Path) -> tuple[float, float] | None:
    """Read latitude and longitude, in degrees, from the EXIF data of a JPEG or TIFF file; None where there are none."""
    image = require("PIL.Image", extra="images")
    exif = image.Exif()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(OSError, UserError))
        stack.enter_context(parsing(path, "an image with EXIF data"))
        stack.enter_context(warnings.catch_warnings(action="ignore"))  # of Pillow, about damaged data
        stream = stack.enter_context(open(path, "rb"))
        head = stream.read(_EXIF_WITHIN)
        if head.startswith(_JPEG):
            parts = (head[start:stop] for marker, start, stop in _jpeg_segments(head) if marker == _JPEG_APP1)
            exif.load(next(part for part in parts if part.startswith(b"Exif\0\0")))
        else:
            stream.seek(0)
            exif.load_from_fp(stream)
        values = exif.get_ifd(_GPS)
        latitude, longitude = (_degrees(values[place], values[place - 1]) for place in (2, 4))
        if abs(latitude) <= 90 and abs(longitude) <= 180:  # NaN, of 0/0, is neither
            return latitude, longitude
    return None


def _degrees(parts: Iterable[Any], direction: str) -> float:
    """Degrees, minutes and seconds as one number, negative in the south and west."""
    degrees, minutes, seconds = map(float, parts)
    return (degrees + minutes / 60 + seconds / 3600) * (-1 if direction.strip("\0 ") in ("S", "W") else 1)


def find_name_problem(name: str) -> str | None:
    """Say why lists and databases of names, or files named after images, cannot have this name; None where they can."""
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        return "a line break or bytes that are no UTF-8 in its name"
    if escapes_folder(name):
        return "a name that would be a path outside of it"
    if os.name == "nt" and any(_NOT_ON_WINDOWS.search(part) for part in re.split(r"[/\\]", name)):
        return "a name that Windows has no files of"
    if max(len(part.encode()) for part in name.split("/")) > LONGEST_NAME:
        return f"a name of more than {LONGEST_NAME} bytes"
    return None


def _images_below(folder: str | Path) -> tuple[list[str], dict[str, str]]:
    """Names of images that can be used, and of the others with what is wrong with them; both sorted."""
    if is_url(folder):
        from patchprint.interop import object_storage

        found: Iterable[str] = object_storage.list_files(folder)
    else:
        found = _files_below(Path(folder))
    names = sorted(
        name
        for name in found
        if Path(name).suffix.lower() in SUFFIXES and not any(part.startswith(".") for part in name.split("/"))
    )
    unusable = {name: problem for name in names if (problem := find_name_problem(name))}
    return [name for name in names if name not in unusable], unusable


def _files_below(root: Path) -> Iterator[str]:
    if not root.is_dir():
        raise UserError(f"{root} is not a folder of images")
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from ((Path(place) / name).relative_to(root).as_posix() for name in files)


def _contents(image: str | Path) -> bytes:
    if is_url(image):
        from patchprint.interop import object_storage

        return object_storage.read(str(image))
    path = Path(image)
    if path.is_dir():
        raise UserError(f"{path} is a folder; expected an image")
    if not path.exists():
        kind = "a link to nowhere" if path.is_symlink() else "not there"
        raise UserError(f"{path} is {kind}; expected an image")
    if not path.is_file():  # a pipe would be waited for
        raise UserError(f"{path} is no file but a pipe, a socket or a device; expected an image")
    if not os.access(path, os.R_OK):
        raise UserError(f"{path} may not be read by this user; change its permissions")
    return path.read_bytes()


def _as_array(image: Any) -> np.ndarray:
    """The pixels of an image in memory, uint8 (H, W) or (H, W, C)."""
    if image is None:
        raise UserError("the image is None: cv2.imread could not read the file; check its path")
    if isinstance(image, (list, tuple)) and any(isinstance(each, (str, Path)) for each in image):
        raise UserError(f"{len(image)} paths are given where one image is expected; go through them one by one")
    if isinstance(image, Tensor):
        is_planar = image.ndim == 3 and image.shape[0] in _CHANNELS and image.shape[2] not in _CHANNELS
        image = (image.permute(1, 2, 0) if is_planar else image).detach().cpu().numpy()
    array = np.asarray(image)
    if array.ndim == 0:
        raise UserError(f"the image is given as {type(image).__name__}; expected a path, an array or a tensor")
    if array.ndim not in (2, 3):
        raise UserError(f"the image has shape {array.shape}; expected (H, W) or (H, W, 1 | 3 | 4)")
    return _to_uint8(array, "the image")


def _to_uint8(image: np.ndarray, name: str) -> np.ndarray:
    """Convert uint8, uint16, bool, or floats in [0, 1] to uint8."""
    if image.size == 0:
        raise UserError(f"{name} has no pixels (shape {image.shape})")
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.bool_:
        return image.astype(np.uint8) * np.uint8(255)
    if image.dtype == np.uint16:
        # Cameras store 10, 12 or 14 bits in 16: keep the upper eight bits of those in use.
        used = max(8, int(image.max()).bit_length())
        return (image >> np.uint16(used - 8)).astype(np.uint8)
    if np.issubdtype(image.dtype, np.floating):
        if not np.isfinite(image).all() or image.min() < -1e-3 or image.max() > 1 + 1e-3:
            raise UserError(f"{name} holds floats outside of [0, 1]; divide by its white level first")
        return np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    raise UserError(f"{name} holds {image.dtype} values; expected uint8, uint16, bool or float in [0, 1]")


def _decode(data: bytes, name: str, exif: bool, mode: str) -> np.ndarray:
    """Decode to gray values or BGR colors, uint8, by the name of OpenCV's flag."""
    if not data:
        raise UserError(f"{name} is empty (0 bytes); expected an image")
    if _is_cut_short(data):
        raise UserError(f"{name} is cut short; copy or download it again")
    width, height = read_header_size(data) or (0, 0)
    if width * height > _MAX_PIXELS_PER_BYTE * len(data):
        raise UserError(f"{name} announces {width}x{height} pixels, more than its {len(data)} bytes can hold")
    cv2 = require("cv2", extra="images")
    flags = getattr(cv2, mode) | cv2.IMREAD_ANYDEPTH | (0 if exif else cv2.IMREAD_IGNORE_ORIENTATION)
    log = cv2.utils.logging
    level, image = log.setLogLevel(log.LOG_LEVEL_SILENT), None  # our error names the file
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error:
        pass
    finally:
        log.setLogLevel(level)
    if image is None:
        raise UserError(f"{name} is not an image that can be read; it is damaged, or of an unknown format")
    return _to_uint8(image, name)


def _is_cut_short(data: bytes) -> bool:
    """Whether a JPEG or PNG file lacks its end; decoders would fill the rest with gray without an error."""
    if data.startswith(_PNG):
        return b"IEND" not in data[8:]
    if data.startswith(_JPEG):
        # Pixels begin after the header segments, one of which may hold a whole thumbnail with its own end.
        start = max((stop for _, _, stop in _jpeg_segments(data)), default=2)
        return data.find(b"\xff\xd9", start) < 0
    return False


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the marker of each header segment, where its contents begin, and where the next segment begins."""
    position = 2
    while position + 4 <= len(data) and data[position] == 0xFF and data[position + 1] != 0xDA:
        if data[position + 1] == 0xFF:  # filler
            position += 1
            continue
        start, position = position, position + 2 + int.from_bytes(data[position + 2 : position + 4], "big")
        yield data[start + 1], start + 4, position
