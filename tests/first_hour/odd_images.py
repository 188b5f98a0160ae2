"""Odd pictures, as they lie around on disks: ``python odd_images.py FOLDER`` writes them.

Each must be described, or refused in one sentence that names it; never a traceback.
"""

import json
import os
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

Maker = Callable[[Path], object]
READ, REFUSED = "read", "refused"


def _texture(height: int = 120, width: int = 160) -> np.ndarray:
    """Blobs of several sizes, uint8 (height, width)."""
    rng = np.random.default_rng(0)
    layers = [rng.normal(size=(height // step + 2, width // step + 2)) for step in (4, 8, 16)]
    image = sum(cv2.resize(layer, (width, height), interpolation=cv2.INTER_CUBIC) for layer in layers)
    return cv2.normalize(image, None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)


def _saved(mode: str | None = None, array: np.ndarray | None = None, **options: object) -> Maker:
    """A picture that Pillow writes, in the format that its name says."""

    def make(path: Path) -> None:
        image = Image.fromarray(_texture() if array is None else array)
        (image.convert("RGB").convert(mode) if mode else image).save(path, **options)

    return make


def _encoded(array: Callable[[], np.ndarray], suffix: str) -> Maker:
    """A picture that OpenCV encodes; by way of memory, since its own names of files must be ASCII on some systems."""
    return lambda path: path.write_bytes(cv2.imencode(suffix, array())[1].tobytes())


def _bytes(data: bytes) -> Maker:
    return lambda path: path.write_bytes(data)


def _jpeg(cut: float = 1.0, as_suffix: str = ".jpg") -> bytes:
    data = cv2.imencode(as_suffix, _texture())[1].tobytes()
    return data[: int(len(data) * cut)]


def _turned(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees
    Image.fromarray(_texture()).save(path, exif=exif)


def _animated(path: Path) -> None:
    frames = [Image.fromarray(np.roll(_texture(), 9 * number, 1)) for number in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def _claims_to_be_huge(path: Path) -> None:
    """A PNG whose header says 60000 x 60000 pixels and which holds none: a bomb for whoever trusts it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )


def _wrong_middle(path: Path) -> None:
    """A JPEG with its beginning and end, and zeros between them, as a damaged disk leaves it."""
    data = bytearray(_jpeg())
    data[len(data) // 3 : -2] = bytes(len(data) - 2 - len(data) // 3)
    path.write_bytes(data)


def _linked(path: Path) -> None:
    path.with_suffix(".target").write_bytes(_jpeg())
    path.symlink_to(path.with_suffix(".target").name)


def _to_itself(path: Path) -> None:
    path.symlink_to(path.name)


# Name: what becomes of it, and how it is made. Of "either" only that it ends well is asked.
IMAGES: dict[str, tuple[str, Maker]] = {
    "zero-bytes.jpg": (REFUSED, _bytes(b"")),
    "text.jpg": (REFUSED, _bytes(b"This is no picture.\n" * 50)),
    "one-byte.png": (REFUSED, _bytes(b"\x89")),
    "html-error.jpg": (REFUSED, _bytes(b"<!DOCTYPE html><html><body>404 Not Found</body></html>")),
    "pdf.png": (REFUSED, _bytes(b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n")),
    "cut-short.jpg": (REFUSED, _bytes(_jpeg(0.6))),
    "cut-short.png": (REFUSED, _bytes(_jpeg(0.6, ".png"))),
    "cut-short.webp": (REFUSED, _bytes(_jpeg(0.4, ".webp"))),
    "cut-short.bmp": ("either", _bytes(_jpeg(0.4, ".bmp"))),
    "cut-short.tif": ("either", _bytes(_jpeg(0.4, ".tiff"))),
    "header-only.jpg": (REFUSED, _bytes(_jpeg()[:20])),
    "wrong-middle.jpg": ("either", _wrong_middle),
    "claims-to-be-huge.png": (REFUSED, _claims_to_be_huge),
    "one-pixel.png": (READ, _saved(array=np.zeros((1, 1), np.uint8))),
    "one-row.png": (READ, _saved(array=_texture(40, 5000)[:1])),
    "one-column.png": (READ, _saved(array=_texture(5000, 40)[:, :1])),
    "two-by-two.png": (READ, _saved(array=_texture()[:2, :2])),
    "very-wide.png": (READ, _saved(array=_texture(40, 8000))),
    "16-bit.png": (READ, _encoded(lambda: _texture().astype(np.uint16) * 200, ".png")),
    "12-of-16-bit.tif": (READ, _encoded(lambda: _texture().astype(np.uint16) * 16, ".tiff")),
    "float.tif": (READ, _encoded(lambda: _texture().astype(np.float32) / 255, ".tiff")),
    "float-meters.tif": (REFUSED, _encoded(lambda: _texture().astype(np.float32) * 10, ".tiff")),
    "float-nan.tif": (REFUSED, _encoded(lambda: np.full((80, 80), np.nan, np.float32), ".tiff")),
    "cmyk.jpg": (READ, _saved("CMYK")),
    "palette.png": (READ, _saved("P")),
    "black-and-white.png": (READ, _saved("1")),
    "gray-alpha.png": (READ, _saved("LA")),
    "rgba.png": (READ, _saved("RGBA")),
    "transparent.png": (READ, _saved(array=np.zeros((80, 80, 4), np.uint8))),
    "progressive.jpg": (READ, _saved("RGB", progressive=True)),
    "interlaced.tif": (READ, _saved("RGB", compression="tiff_lzw")),
    "all-black.png": (READ, _saved(array=np.zeros((90, 90), np.uint8))),
    "all-white.jpg": (READ, _saved(array=np.full((90, 90), 255, np.uint8))),
    "noise.png": (READ, _saved(array=np.random.default_rng(1).integers(0, 256, (150, 150), np.uint8))),
    "exif-turned.jpg": (READ, _turned),
    "animated.webp": ("either", _animated),
    "bitmap.bmp": (READ, _saved("RGB")),
    "pixmap.ppm": (READ, _saved("RGB")),
    "graymap.pgm": (READ, _saved()),
    "webp.webp": (READ, _saved("RGB")),
    "jpeg2000.jp2": ("either", _saved()),
    "png-called.jpg": (READ, _bytes(_jpeg(as_suffix=".png"))),
    "UPPER.JPG": (READ, _bytes(_jpeg())),
    "two.dots.in.it.jpg": (READ, _bytes(_jpeg())),
    "with spaces in it.jpg": (READ, _bytes(_jpeg())),
    "na\u00efve \u753b\u50cf \U0001f600.jpg": (READ, _bytes(_jpeg())),
    "line\r\nbreak.jpg": ("either", _bytes(_jpeg())),
    "quote'\"$HOME`ls`;.jpg": (READ, _bytes(_jpeg())),
    "-dash.jpg": (READ, _bytes(_jpeg())),
    "%20&=?#.jpg": (READ, _bytes(_jpeg())),
    f"{'long' * 50}.jpg": (READ, _bytes(_jpeg())),
    "linked.jpg": (READ, _linked),
    "dangling-link.jpg": (REFUSED, lambda path: path.symlink_to("nowhere.jpg")),
    "link-to-itself.jpg": (REFUSED, _to_itself),
    "a-folder.jpg": (REFUSED, Path.mkdir),
    "a-pipe.jpg": (REFUSED, os.mkfifo),
    "endless.jpg": (REFUSED, lambda path: path.symlink_to("/dev/zero")),
}
LARGE: dict[str, tuple[str, Maker]] = {
    "100-megapixels.png": (READ, lambda path: Image.new("L", (10000, 10000), 128).save(path)),
}


def no_permission(path: Path) -> bool:
    """A picture that may not be read; False where whoever runs this may read all."""
    path.write_bytes(_jpeg())
    path.chmod(0)
    return not os.access(path, os.R_OK)


def write(folder: Path, large: bool = False) -> dict[str, str]:
    """Every picture; returns what becomes of each by name."""
    folder.mkdir()
    wanted = IMAGES | (LARGE if large else {})
    for name, (_, make) in wanted.items():
        make(folder / name)
    outcomes = {name: outcome for name, (outcome, _) in wanted.items()}
    if no_permission(folder / "no-permission.jpg"):
        outcomes["no-permission.jpg"] = REFUSED
    else:
        (folder / "no-permission.jpg").unlink()
    return outcomes


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    outcomes = write(folder, large=True)
    (folder / "outcomes.json").write_text(json.dumps(outcomes), encoding="utf-8")
