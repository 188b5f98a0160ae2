"""Draw matches: both images side by side, lines between corresponding keypoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchprint.common.errors import UserError, require
from patchprint.common.files import atomic_file
from patchprint.common.types import Features, Matches
from patchprint.interop.images import ImageLike, read_color

SUFFIXES = (".png", ".jpg", ".jpeg")
MAX_SIDE = 1200  # pixels of one image in the drawing
AGREE, DISAGREE, UNKNOWN, FOUND = (60, 190, 80), (210, 70, 60), (240, 180, 40), (120, 170, 230)  # RGB
Panels = tuple[np.ndarray, np.ndarray]  # two images (H, W, 3) uint8 in RGB


def draw(
    a: Features,
    b: Features,
    matches: Matches,
    path: str | Path,
    *,
    images: Sequence[ImageLike] | None = None,
    max_lines: int = 250,
    outliers: bool = False,
) -> None:
    """Draw matches into a PNG or JPEG (by the suffix of ``path``).

    Args:
        images: the two images; read from ``image_path`` of the features if not given.
        max_lines: more matches than this are thinned evenly, since a drawing full of lines shows nothing.
        outliers: draw the matches that verification rejected too, in red. Without verification all are drawn, in yellow.
    """
    panels = []
    for i, features in enumerate((a, b)):  # a large image is in memory alone
        panels.append(panel(_load(features, None if images is None else images[i])))
    _write(Path(path), picture((panels[0], panels[1]), a, b, matches, max_lines, outliers))


def panel(image: np.ndarray, max_side: int | None = None) -> np.ndarray:
    """Shrink an image (H, W, 3) for the drawing: at most MAX_SIDE pixels, or ``max_side``, along its longer side."""
    cv2 = require("cv2", extra="images")
    scale = (max_side or MAX_SIDE) / max(image.shape)
    return image if scale >= 1 else cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)


@dataclass(frozen=True)
class Layout:
    """Positions of two images in a drawing: the first on the left, the second on the right.

    Attributes:
        panels: width and height of each in the drawing.
        scales: pixels of the drawing along a pixel of the image.
    """

    panels: tuple[tuple[int, int], tuple[int, int]]
    scales: tuple[float, float]

    @staticmethod
    def of(panels: Panels, a: Features, b: Features) -> Layout:
        sizes = [(each.shape[1], each.shape[0]) for each in panels]
        scales = [max(size) / max(features.image_size) for size, features in zip(sizes, (a, b), strict=True)]
        return Layout((sizes[0], sizes[1]), (scales[0], scales[1]))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the drawing."""
        (first, above), (second, below) = self.panels
        return first + second, max(above, below)

    def place(self, side: int, xy: np.ndarray) -> np.ndarray:
        """Convert pixels (N, 2) of an image, 0 or 1, to pixels (N, 2) of the drawing."""
        return (np.asarray(xy) + 0.5) * self.scales[side] - 0.5 + [side * self.panels[0][0], 0]

    def find(self, x: float, y: float) -> tuple[int, tuple[float, float]]:
        """Convert a pixel of the drawing to the number of an image and a pixel of it."""
        side = int(x >= self.panels[0][0])
        left = side * self.panels[0][0]
        return side, ((x - left + 0.5) / self.scales[side] - 0.5, (y + 0.5) / self.scales[side] - 0.5)


def picture(
    panels: Panels,
    a: Features,
    b: Features,
    matches: Matches,
    max_lines: int = 250,
    outliers: bool = False,
    keypoints: bool = False,
    ground: int = 255,
) -> np.ndarray:
    """Make the drawing that `draw` writes.

    Args:
        panels: the two images as `panel` gives them.
        keypoints: mark all keypoints, those without a match too.
        ground: the gray value below the lower of the two.

    Shape:
        -> uint8 (H, W, 3), RGB
    """
    cv2 = require("cv2", extra="images")
    layout = Layout.of(panels, a, b)
    canvas = np.full((layout.size[1], layout.size[0], 3), ground, np.uint8)
    shift = layout.panels[0][0]
    canvas[: panels[0].shape[0], :shift] = panels[0]
    canvas[: panels[1].shape[0], shift:] = panels[1]
    from_a, from_b = (layout.place(side, each.keypoints.xy.cpu().numpy()) for side, each in enumerate((a, b)))
    if keypoints:
        for point in np.concatenate([from_a, from_b]):
            cv2.circle(canvas, _sixteenths(point), 2 * 16, FOUND, 1, cv2.LINE_AA, shift=4)

    inliers = None if matches.inliers is None else matches.inliers.cpu().numpy()
    rows = np.arange(len(matches)) if inliers is None or outliers else np.flatnonzero(inliers)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), max_lines)).round().astype(int)]
    if inliers is not None:
        rows = rows[np.argsort(inliers[rows], kind="stable")]  # green over red
    for row in rows:
        i, j = matches.indices[row].tolist()
        color = UNKNOWN if inliers is None else AGREE if inliers[row] else DISAGREE
        ends = [_sixteenths(point) for point in (from_a[i], from_b[j])]
        cv2.line(canvas, *ends, color, 1, cv2.LINE_AA, shift=4)
        for end in ends:
            cv2.circle(canvas, end, 2 * 16, color, -1, cv2.LINE_AA, shift=4)
    return canvas


def ring(canvas: np.ndarray, place: np.ndarray, radius: float, color: tuple[int, int, int]) -> None:
    """Draw a ring around a pixel (2,) of a `picture`, in it; visible on light and on dark ground."""
    cv2 = require("cv2", extra="images")
    for ink, width in (((0, 0, 0), 4), (color, 2)):
        cv2.circle(canvas, _sixteenths(place), round(radius * 16), ink, width, cv2.LINE_AA, shift=4)


def encode(rgb: np.ndarray, suffix: str) -> bytes | None:
    """Encode an image (H, W, 3) as ".png" or ".jpg"; None where the format cannot hold it."""
    cv2 = require("cv2", extra="images")
    done, data = cv2.imencode(suffix, np.ascontiguousarray(rgb[..., ::-1]))
    return data.tobytes() if done else None


def _sixteenths(point: np.ndarray) -> tuple[int, int]:
    """Convert a position to OpenCV's fixed point (``shift=4``)."""
    return round(float(point[0]) * 16), round(float(point[1]) * 16)


def _load(features: Features, given: ImageLike | None) -> np.ndarray:
    source = features.image_path if given is None else given
    if source is None:
        raise UserError("the features come from an array: give draw(..., images=(a, b))")
    image = read_color(source)
    if (image.shape[1], image.shape[0]) != features.image_size and isinstance(source, (str, Path)):
        image = read_color(source, exif=True)  # the features may be those of the rotated image
    if (image.shape[1], image.shape[0]) != features.image_size:
        size = f"{image.shape[1]}x{image.shape[0]}"
        raise UserError(f"the image is {size}, but the features were made from one of {features.image_size}")
    return image


def _write(path: Path, rgb: np.ndarray) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"{path}: drawings are written as .png, .jpg or .jpeg")
    data = encode(rgb, path.suffix.lower())
    if data is None:
        raise UserError(f"{path}: the drawing of {rgb.shape[1]}x{rgb.shape[0]} pixels could not be encoded")
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)
