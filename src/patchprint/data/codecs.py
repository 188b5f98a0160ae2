"""ImageLike files in memory: bytes to grey pixels and back. The only place where ``patches`` meets an image codec.

OpenCV decodes where it is installed, else Pillow, so that training runs on machines that have only one of them.
"""

from __future__ import annotations

import importlib.util
import io

import numpy as np

from patchprint.common.errors import UserError
from patchprint.common.optional import require


def decode_gray(data: bytes | np.ndarray, name: str) -> np.ndarray:
    """Grey uint8 (H, W) of an encoded picture, without turning it by its EXIF flag (tracks are in raw pixels)."""
    if importlib.util.find_spec("cv2") is not None:
        cv2 = require("cv2", extra="images")
        flags = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
        try:
            image = cv2.imdecode(np.frombuffer(data, np.uint8), flags) if len(data) else None
        except cv2.error:
            image = None
    else:
        image = _decode_with_pillow(bytes(data))
    if image is None:
        raise UserError(f"{name} is not a picture that can be read; it is damaged, or of an unknown format")
    return image


def encode_png(image: np.ndarray) -> bytes:
    """Lossless bytes of a uint8 picture, gray (H, W) or RGB (H, W, 3)."""
    return _encode(".png", image if image.ndim == 2 else image[..., ::-1], [])


def encode_jpeg(image: np.ndarray, quality: int) -> bytes:
    """JPEG bytes of a grey uint8 picture (H, W)."""
    cv2 = require("cv2", extra="images")
    return _encode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, 1])


def _encode(extension: str, image: np.ndarray, options: list[int]) -> bytes:
    done, data = require("cv2", extra="images").imencode(extension, image, options)
    if not done:
        raise UserError(f"a picture of shape {image.shape} cannot be encoded as {extension}")
    return data.tobytes()


def _decode_with_pillow(data: bytes) -> np.ndarray | None:
    image = require("PIL.Image", extra="images")
    try:
        return np.asarray(image.open(io.BytesIO(data)).convert("L"))
    except (OSError, ValueError, SyntaxError, image.DecompressionBombError):
        return None
