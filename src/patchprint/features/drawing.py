"""A picture of matches: both photos side by side, lines between corresponding keypoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from patchprint.errors import UserError
from patchprint.extras import require
from patchprint.files import atomic_file
from patchprint.interop.images import ImageLike, read_color
from patchprint.types import Features, Matches

SUFFIXES = (".png", ".jpg", ".jpeg")
MAX_SIDE = 1200  # pixels of one photo in the drawing
AGREE, DISAGREE, UNKNOWN = (60, 190, 80), (210, 70, 60), (240, 180, 40)  # RGB


def draw(
    a: Features,
    b: Features,
    matches: Matches,
    path: str | Path,
    images: Sequence[ImageLike] | None = None,
    max_lines: int = 250,
    outliers: bool = False,
) -> None:
    """Write a PNG or JPEG (by the suffix of ``path``).

    Args:
        images: the two pictures; read from ``image_path`` of the features if not given.
        max_lines: more matches than this are thinned evenly, since a picture full of lines shows nothing.
        outliers: draw the matches that verification rejected too, in red. Without verification all are drawn, in yellow.
    """
    cv2 = require("cv2", extra="images")
    scales = [min(1.0, MAX_SIDE / max(features.image_size)) for features in (a, b)]
    panels = []
    for i, (features, scale) in enumerate(zip((a, b), scales, strict=True)):  # a large image is in memory alone
        panel = _load(features, None if images is None else images[i])
        if scale < 1:
            panel = cv2.resize(panel, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        panels.append(panel)
    canvas = np.full((max(p.shape[0] for p in panels), sum(p.shape[1] for p in panels), 3), 255, np.uint8)
    shift = panels[0].shape[1]
    canvas[: panels[0].shape[0], :shift] = panels[0]
    canvas[: panels[1].shape[0], shift:] = panels[1]

    inliers = None if matches.inliers is None else matches.inliers.cpu().numpy()
    rows = np.arange(len(matches)) if inliers is None or outliers else np.flatnonzero(inliers)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), max_lines)).round().astype(int)]
    if inliers is not None:
        rows = rows[np.argsort(inliers[rows], kind="stable")]  # green over red
    from_a = (a.keypoints.xy.cpu().numpy() + 0.5) * scales[0] - 0.5
    from_b = (b.keypoints.xy.cpu().numpy() + 0.5) * scales[1] - 0.5 + [shift, 0]
    for row in rows:
        i, j = matches.indices[row].tolist()
        color = UNKNOWN if inliers is None else AGREE if inliers[row] else DISAGREE
        ends = [tuple(round(float(v) * 16) for v in point) for point in (from_a[i], from_b[j])]
        cv2.line(canvas, *ends, color, 1, cv2.LINE_AA, shift=4)
        for end in ends:
            cv2.circle(canvas, end, 2 * 16, color, -1, cv2.LINE_AA, shift=4)
    _write(Path(path), canvas)


def _load(features: Features, given: ImageLike | None) -> np.ndarray:
    source = features.image_path if given is None else given
    if source is None:
        raise UserError("the features come from an array: give draw(..., images=(a, b))")
    image = read_color(source)
    if (image.shape[1], image.shape[0]) != features.image_size and isinstance(source, (str, Path)):
        image = read_color(source, exif=True)  # the features may have been made from the turned picture
    if (image.shape[1], image.shape[0]) != features.image_size:
        size = f"{image.shape[1]}x{image.shape[0]}"
        raise UserError(f"the picture is {size}, but the features were made from one of {features.image_size}")
    return image


def _write(path: Path, rgb: np.ndarray) -> None:
    cv2 = require("cv2", extra="images")
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"{path}: drawings are written as .png, .jpg or .jpeg")
    done, data = cv2.imencode(path.suffix.lower(), np.ascontiguousarray(rgb[..., ::-1]))
    if not done:
        raise UserError(f"{path}: the drawing of {rgb.shape[1]}x{rgb.shape[0]} pixels could not be encoded")
    with atomic_file(path) as temporary:
        temporary.write_bytes(data.tobytes())
