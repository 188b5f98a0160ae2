"""Images embedded in a page: files, downscaled if large, and arrays of gray or RGB pixels."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from patchprint.common.errors import UserError, require
from patchprint.interop.images import encode_image, read_color

SUFFIXES = (".png", ".jpg", ".jpeg")
LARGEST_FILE = 600_000  # bytes that are taken as they are
LONGEST_SIDE = 1600  # pixels of an image that is made smaller
QUALITY = 85  # of JPEG


@dataclass(frozen=True)
class EmbeddedImage:
    """An image as a data URI.

    Args:
        source: the data URI.
        size: width and height on the page in pixels.
        caption: the text below.
        alt: a description for screen readers; by default the caption.
        sharp: whether enlarged pixels stay squares.
        wide: whether the image takes a full row.
    """

    source: str
    size: tuple[int, int]
    caption: str
    alt: str = ""
    sharp: bool = False
    wide: bool = True

    template: ClassVar[str] = "image.html"

    @staticmethod
    def from_file(path: str | Path, caption: str, wide: bool = True) -> EmbeddedImage:
        """Embed a PNG or JPEG file; a large file becomes a JPEG of at most LONGEST_SIDE pixels."""
        file = Path(path)
        if file.suffix.lower() not in SUFFIXES:
            raise UserError(f"{file}: images on a page are .png, .jpg or .jpeg")
        pixels = read_color(file)
        data, kind = file.read_bytes(), "png" if file.suffix.lower() == ".png" else "jpeg"
        if len(data) > LARGEST_FILE:
            scale = LONGEST_SIDE / max(pixels.shape[:2])
            if scale < 1:
                cv2 = require("cv2", extra="images")
                pixels = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
            data, kind = encode_image(pixels, ".jpg", QUALITY), "jpeg"
        return EmbeddedImage(_data_uri(data, kind), (pixels.shape[1], pixels.shape[0]), caption, wide=wide)

    @staticmethod
    def from_pixels(pixels: np.ndarray, caption: str, alt: str = "", larger: int = 1) -> EmbeddedImage:
        """Embed uint8 pixels as PNG, each enlarged to a square of ``larger`` pixels.

        Shape:
            pixels (H, W) gray or (H, W, 3) RGB.
        """
        size = larger * pixels.shape[1], larger * pixels.shape[0]
        return EmbeddedImage(_data_uri(encode_image(pixels), "png"), size, caption, alt, sharp=larger > 1)


@dataclass(frozen=True)
class Gallery:
    """Small images side by side, in as many rows as the window needs."""

    images: Sequence[EmbeddedImage]
    caption: str
    title: str = ""
    wide: bool = True

    template: ClassVar[str] = "gallery.html"


def _data_uri(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
