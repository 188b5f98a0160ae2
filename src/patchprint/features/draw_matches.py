"""Draw matches: both images side by side, lines between corresponding keypoints."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from patchprint.common.errors import UserError, require
from patchprint.common.files import atomic_file
from patchprint.common.types import Features, Matches
from patchprint.interop.images import ImageLike, encode_image, limit_size, read_color

SUFFIXES = (".png", ".jpg", ".jpeg")
MAX_SIDE = 1200  # pixels of one image in the drawing
GAP, CAPTION = 8, 24  # pixels between the images, and below them
INLIER, OUTLIER, UNVERIFIED = (80, 190, 120), (210, 70, 60), (240, 180, 40)  # RGB
_HUES = np.array((-180, -50, 220))  # added to inliers from the topmost to the lowest, so that lines can be followed


def draw(
    a: Features,
    b: Features,
    matches: Matches,
    path: str | Path,
    *,
    images: Sequence[ImageLike] | None = None,
    max_lines: int = 100,
    outliers: bool = False,
) -> None:
    """Draw matches into a PNG or JPEG (by the suffix of ``path``), with a caption that says how many.

    Args:
        images: the two images; read from ``image_path`` of the features if not given.
        max_lines: more matches than this are thinned evenly.
        outliers: also draw the matches that verification rejected, in red. Inliers are green to blue, from top to bottom, and
            matches without verification yellow.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"{path}: drawings are written as .png, .jpg or .jpeg")
    sources = [each.image_path for each in (a, b)] if images is None else images
    panels = [limit_size(_read(each, source), MAX_SIDE) for each, source in zip((a, b), sources, strict=True)]
    data = encode_image(_draw_lines(panels, a, b, matches, max_lines, outliers), path.suffix.lower())
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)


def _draw_lines(
    panels: Sequence[np.ndarray], a: Features, b: Features, matches: Matches, max_lines: int, outliers: bool
) -> np.ndarray:
    """Put two images (H, W, 3) side by side and draw a line for each match: uint8 (H, W, 3), RGB."""
    cv2 = require("cv2", extra="images")
    left, right = panels
    start = left.shape[1] + GAP
    canvas = np.full((max(len(left), len(right)) + CAPTION, start + right.shape[1], 3), 255, np.uint8)
    canvas[: len(left), : left.shape[1]] = left
    canvas[: len(right), start:] = right

    ends = []
    for panel, features, offset in zip(panels, (a, b), (0, start), strict=True):
        scale = max(panel.shape[:2]) / max(features.image_size)
        ends.append((features.keypoints.xy.cpu().numpy() + 0.5) * scale - 0.5 + [offset, 0])

    inliers = None if matches.inliers is None else matches.inliers.cpu().numpy()
    rows = np.arange(len(matches)) if inliers is None or outliers else np.flatnonzero(inliers)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), max_lines)).round().astype(int)]
    if inliers is not None:
        rows = rows[np.argsort(inliers[rows], kind="stable")]  # inliers above outliers
    for row in rows:
        color = UNVERIFIED if inliers is None else OUTLIER
        if inliers is not None and inliers[row]:
            share = ends[0][matches.indices[row, 0]][1] / len(left) - 0.5
            color = tuple(np.clip(INLIER + share * _HUES, 0, 255).round().tolist())
        # OpenCV takes sixteenths of a pixel (shift=4).
        line = [
            tuple(round(float(value) * 16) for value in xy[index])
            for xy, index in zip(ends, matches.indices[row].tolist(), strict=True)
        ]
        cv2.line(canvas, *line, color, 1, cv2.LINE_AA, shift=4)
        for end in line:
            cv2.circle(canvas, end, 2 * 16, color, -1, cv2.LINE_AA, shift=4)
    found = f"{len(matches)} matches" + ("" if inliers is None else f", {inliers.sum()} agree with one geometry")
    caption = f"{found}; {len(rows)} drawn" if len(rows) else f"{found}; none drawn"
    place = (4, len(canvas) - 7)
    cv2.putText(canvas, caption, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, (40, 40, 40), 1, cv2.LINE_AA)
    return canvas


def _read(features: Features, source: ImageLike | None) -> np.ndarray:
    """Read the image of features, rotated by its EXIF orientation if the features are."""
    if source is None:
        raise UserError("the features come from an array: give draw(..., images=(a, b))")
    image = read_color(source)
    if (image.shape[1], image.shape[0]) != features.image_size and isinstance(source, (str, Path)):
        image = read_color(source, exif=True)
    if (image.shape[1], image.shape[0]) != features.image_size:
        size = f"{image.shape[1]}x{image.shape[0]}"
        raise UserError(f"the image is {size}, but the features were made from one of {features.image_size}")
    return image
