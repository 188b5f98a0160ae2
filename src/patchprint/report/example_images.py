"""Example patches of training runs: pairs with wrong distances, and points that were learned from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from patchprint.common.errors import UserError, parsing
from patchprint.common.safe_io import read_npz
from patchprint.report.embedded_images import EmbeddedImage, Gallery
from patchprint.report.page import Part, Section
from patchprint.report.runs import Run
from patchprint.training.diagnostics import HARDEST, LARGEST_SIDE, PATCHES

_FRAME = 128  # gray, so that a white patch ends somewhere on a white page
_LARGER = 2  # times, so that a patch of 32 pixels can be seen
# Title and caption of each kind of pair.
KINDS = {
    "missed": (
        "Missed",
        "Two views of one point that lie farthest apart, one above the other, with their distance.",
    ),
    "confused": (
        "Confused",
        "Two different points that lie nearest to each other, one above the other, with their distance.",
    ),
}


def example_sections(runs: Sequence[Run], hardest: Sequence[Part] = ()) -> list[Section]:
    """Return sections with the hardest pairs and the training patches of the runs that recorded them.

    Args:
        runs: training runs.
        hardest: pairs of others, which come first.
    """
    wrong, learned = list(hardest), list[Part]()
    for run in runs:
        of = f" ({run.label})" if len(runs) > 1 or hardest else ""
        wrong += [pair_gallery(*found, kind, of) for kind, found in _read_hardest(run).items()]
        points = _read_points(run)
        if points:
            caption = f"Some of the points that it learned from{of}: each in up to {max(map(len, points))} views."
            learned.append(Gallery([_tile(views[None], "", "views of a point") for views in points], caption))
    sections = [Section("Where it goes wrong", wrong), Section("What it learned from", learned)]
    return [section for section in sections if section.parts]


def pair_gallery(patches: np.ndarray, distance: Iterable[float], kind: str, of: str) -> Gallery:
    """Return one of the KINDS of pairs as images.

    Shape:
        patches (C, 2, S, S) uint8, distance (C,).
    """
    title, text = KINDS[kind]
    images = [
        _tile(pair[:, None, :, :, None], f"{value:.2f}", f"a pair at distance {value:.2f}")
        for pair, value in zip(patches, distance, strict=True)
    ]
    return Gallery(images, text, f"{title}{of}", wide=False)


def _read_hardest(run: Run) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read patches (C, 2, S, S) and distances (C,) of each kind of pair."""
    file, what = run.folder / HARDEST, "the hardest pairs of a run"
    if not file.is_file():
        return {}
    arrays = read_npz(file, what)
    with parsing(file, what):
        found = {kind: (arrays[kind], arrays[f"{kind}_distance"]) for kind in KINDS}
        for patches, distance in found.values():
            _check(patches, patches.ndim == 4 and patches.shape[1] == 2 and distance.shape == patches.shape[:1])
            _check(patches, distance.dtype.kind == "f")
    return {kind: pairs for kind, pairs in found.items() if len(pairs[1])}


def _read_points(run: Run) -> list[np.ndarray]:
    """Read the views of each point, (V, S, S, C)."""
    file, what = run.folder / PATCHES, "the patches of a run"
    arrays = read_npz(file, what) if file.is_file() else {}
    if not arrays:
        return []
    with parsing(file, what):
        patches, valid = arrays["patches"], arrays["valid"]
        _check(patches, patches.ndim == 5 and patches.shape[4] in (1, 3) and valid.shape == patches.shape[:2])
        _check(patches, valid.dtype == np.bool_)
    return [views[chosen] for views, chosen in zip(patches, valid, strict=True) if chosen.any()]


def _check(patches: np.ndarray, is_right: bool) -> None:
    if not is_right or patches.dtype != np.uint8 or 0 in patches.shape[2:]:
        raise UserError("its arrays have unexpected shapes or types")


def _tile(cells: np.ndarray, caption: str, alt: str) -> EmbeddedImage:
    """Compose framed patches in rows and columns.

    Shape:
        cells (R, C, S, S, 1 or 3) uint8.
    """
    framed = np.pad(cells, ((0, 0), (0, 0), (1, 0), (1, 0), (0, 0)), constant_values=_FRAME)
    rows, columns, height, width, channels = framed.shape
    whole = framed.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, channels)
    closed = np.pad(whole, ((0, 1), (0, 1), (0, 0)), constant_values=_FRAME)
    pixels = closed[..., 0] if channels == 1 else closed
    return EmbeddedImage.from_pixels(pixels, caption, alt, larger=_LARGER if height < LARGEST_SIDE else 1)
