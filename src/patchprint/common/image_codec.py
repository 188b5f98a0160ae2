"""Decode and encode images in memory, with OpenCV where it is installed, else Pillow.

Training and use decode here, so both see the same pixels. As in COLMAP, EXIF orientation is not applied by default.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from patchprint.common.errors import UserError, require

# Deflate packs a byte into a 1032nd of one, and a byte of a PNG file may hold eight pixels.
_MAX_PIXELS_PER_BYTE = 8 * 1032
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
_JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # markers of a frame header


def decode_gray(data: bytes | np.ndarray, name: str, exif: bool = False) -> np.ndarray:
    """Decode an image file in memory to gray values.

    Args:
        data: contents of the file.
        name: what error messages call it.
        exif: rotate the image as its EXIF orientation says.

    Shape:
        -> uint8 (H, W)
    """
    return _decode(bytes(data), name, exif, gray=True)


def decode_color(data: bytes | np.ndarray, name: str, exif: bool = False) -> np.ndarray:
    """Decode an image file in memory to colors; the same arguments as `decode_gray`.

    Shape:
        -> uint8 (H, W, 3), RGB
    """
    return _decode(bytes(data), name, exif, gray=False)


def encode_png(image: np.ndarray) -> bytes:
    """Encode a uint8 image, gray (H, W) or RGB (H, W, 3), without loss."""
    return _encode(".png", image, [])


def encode_jpeg(image: np.ndarray, quality: int) -> bytes:
    """Encode a uint8 image, gray (H, W) or RGB (H, W, 3), as JPEG."""
    cv2 = require("cv2", extra="images")
    return _encode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, 1])


def size_in_header(data: bytes) -> tuple[int, int] | None:
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
                sides = data[start + 1 : start + 3], data[start + 3 : start + 5]
                return int.from_bytes(sides[1], "big"), int.from_bytes(sides[0], "big")
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp_size(data)
    return None


def to_uint8(image: np.ndarray, name: str) -> np.ndarray:
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


def _decode(data: bytes, name: str, exif: bool, gray: bool) -> np.ndarray:
    if not data:
        raise UserError(f"{name} is empty (0 bytes); expected an image")
    if _is_cut_short(data):
        raise UserError(f"{name} is cut short; copy or download it again")
    width, height = size_in_header(data) or (0, 0)
    if width * height > _MAX_PIXELS_PER_BYTE * len(data):
        raise UserError(f"{name} announces {width}x{height} pixels, more than its {len(data)} bytes can hold")
    has_opencv = importlib.util.find_spec("cv2") is not None
    image = (_decode_with_opencv if has_opencv else _decode_with_pillow)(data, exif, gray)
    if image is None:
        raise UserError(f"{name} is not an image that can be read; it is damaged, or of an unknown format")
    return np.require(to_uint8(image, name), requirements=["C", "W"])  # arrays of Pillow are read-only


def _decode_with_opencv(data: bytes, exif: bool, gray: bool) -> np.ndarray | None:
    cv2 = require("cv2", extra="images")
    flags = (cv2.IMREAD_GRAYSCALE if gray else cv2.IMREAD_COLOR) | cv2.IMREAD_ANYDEPTH
    log = cv2.utils.logging
    level = log.setLogLevel(log.LOG_LEVEL_SILENT)  # the caller raises one error that names the file
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags | (0 if exif else cv2.IMREAD_IGNORE_ORIENTATION))
    except cv2.error:
        return None
    finally:
        log.setLogLevel(level)
    return image if gray or image is None else image[..., ::-1]


def _decode_with_pillow(data: bytes, exif: bool, gray: bool) -> np.ndarray | None:
    pillow, operations = require("PIL.Image", extra="images"), require("PIL.ImageOps", extra="images")
    try:
        image: Any = pillow.open(io.BytesIO(data))
        image = operations.exif_transpose(image) if exif else image
        if gray and image.mode.startswith("I;16"):
            return np.asarray(image)
        return np.asarray(image.convert("L" if gray else "RGB"))
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError):
        return None


def _encode(extension: str, image: np.ndarray, options: list[int]) -> bytes:
    pixels = image if image.ndim == 2 else image[..., ::-1]
    done, data = require("cv2", extra="images").imencode(extension, pixels, options)
    if not done:
        raise UserError(f"an image of shape {image.shape} cannot be encoded as {extension}")
    return data.tobytes()


def _webp_size(data: bytes) -> tuple[int, int]:
    """Width and height of a WebP file of any of its three kinds: extended, lossless, lossy."""
    if data[12:16] == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if data[12:16] == b"VP8L":  # 14 bits each, after a signature byte
        both = int.from_bytes(data[21:25], "little")
        return 1 + (both & 0x3FFF), 1 + (both >> 14 & 0x3FFF)
    return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF


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
