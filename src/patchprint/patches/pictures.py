"""Picture files in memory: bytes to grey pixels and back. The only place where ``patches`` meets an image codec.

OpenCV decodes where it is installed, else Pillow, so that training runs on machines that have only one of them.
"""

from __future__ import annotations

import importlib.util
import io

import numpy as np

from patchprint.extras import require


def decode_gray(data: bytes | np.ndarray, name: str) -> np.ndarray:
    """Grey uint8 (H, W) of an encoded picture, without turning it by its EXIF flag (tracks are in raw pixels)."""
    if importlib.util.find_spec("cv2") is not None:
        cv2 = require("cv2", extra="images")
        flags = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
        picture = cv2.imdecode(np.frombuffer(data, np.uint8), flags) if len(data) else None
    else:
        picture = _decode_with_pillow(bytes(data))
    if picture is None:
        raise ValueError(f"{name} is not a picture that can be read; it is damaged, or of an unknown format")
    return picture


def encode_png(picture: np.ndarray) -> bytes:
    """Lossless bytes of a grey uint8 picture (H, W)."""
    return _encode(".png", picture, [])


def encode_jpeg(picture: np.ndarray, quality: int) -> bytes:
    """JPEG bytes of a grey uint8 picture (H, W)."""
    cv2 = require("cv2", extra="images")
    return _encode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_OPTIMIZE, 1])


def _encode(extension: str, picture: np.ndarray, options: list[int]) -> bytes:
    done, data = require("cv2", extra="images").imencode(extension, picture, options)
    if not done:
        raise ValueError(f"a picture of shape {picture.shape} cannot be encoded as {extension}")
    return data.tobytes()


def _decode_with_pillow(data: bytes) -> np.ndarray | None:
    image = require("PIL.Image", extra="images")
    try:
        return np.asarray(image.open(io.BytesIO(data)).convert("L"))
    except OSError:
        return None
