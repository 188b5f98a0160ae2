"""Example patches of runs and results: pairs with wrong distances, and training patches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from patchprint.benchmarks._worst_pairs import from_json
from patchprint.common.errors import UserError, parsing
from patchprint.common.safe_io import read_npz
from patchprint.report.embedded_images import EmbeddedImage, Gallery
from patchprint.report.page import Part, Section
from patchprint.report.result_comparison import label_of, where
from patchprint.report.runs import Run
from patchprint.training.diagnostics import HARDEST, LARGEST_SIDE, PATCHES

_MOST_RESULTS = 6
_FRAME = 128  # gray, so that a white patch ends somewhere on a white page
_LARGER = 2  # times, so that a patch of 32 pixels can be seen
_WORDS = {
    "missed": (
        "Missed",
        "Two views of one point that lie farthest apart, one above the other, with their distance.",
    ),
    "confused": (
        "Confused",
        "Two different points that lie nearest to each other, one above the other, with their distance.",
    ),
}


def example_sections(runs: Sequence[Run], results: Sequence[dict[str, Any]] = ()) -> list[Section]:
    """Return sections with the hardest pairs and the training patches of runs and results that recorded them."""
    hardest = _of_results(results)
    learned: list[Part] = []
    for run in runs:
        of = f" ({run.label})" if len(runs) > 1 or results else ""
        hardest += [_pairs(*found, name, of) for name, found in _read_hardest(run).items()]
        points = _read_points(run)
        if points:
            caption = f"Some of the points that it learned from{of}: each in up to {max(map(len, points))} views."
            learned.append(Gallery([_tile(views[None], "", "views of a point") for views in points], caption))
    sections = [Section("Where it goes wrong", hardest)] if hardest else []
    return sections + ([Section("What it learned from", learned)] if learned else [])


def _of_results(results: Sequence[dict[str, Any]]) -> list[Part]:
    """Return the hardest pairs of the first few results."""
    found: list[Part] = []
    for result in [each for each in results if isinstance(each["scores"].get("hardest"), dict)][:_MOST_RESULTS]:
        of = f" ({label_of(result)}, {where(result)})"
        for kind, entry in result["scores"]["hardest"].items():
            if kind in _WORDS:
                patches, distance = from_json(entry, f"the result of {label_of(result)}")
                found.append(_pairs(patches, distance, kind, of))
    return found


def _read_hardest(run: Run) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read patches (C, 2, S, S) and distances (C,) of each kind of pair."""
    file = run.folder / HARDEST
    if not file.is_file():
        return {}
    arrays = read_npz(file, "the hardest pairs of a run")
    with parsing(file, "the hardest pairs of a run"):
        found = {name: (arrays[name], arrays[f"{name}_distance"]) for name in _WORDS}
        for patches, distance in found.values():
            right = patches.ndim == 4 and patches.shape[1] == 2 and distance.shape == patches.shape[:1]
            if not right or patches.dtype != np.uint8 or distance.dtype.kind != "f" or 0 in patches.shape[2:]:
                raise UserError("its arrays have other shapes than those that training writes")
    return {name: pairs for name, pairs in found.items() if len(pairs[1])}


def _read_points(run: Run) -> list[np.ndarray]:
    """Read the views of each point, (V, S, S, C)."""
    file = run.folder / PATCHES
    arrays = read_npz(file, "the patches of a run") if file.is_file() else {}
    if not arrays:
        return []
    with parsing(file, "the patches of a run"):
        patches, valid = arrays["patches"], arrays["valid"]
        right = patches.ndim == 5 and patches.shape[4] in (1, 3) and valid.shape == patches.shape[:2]
        if not right or patches.dtype != np.uint8 or valid.dtype != np.bool_ or 0 in patches.shape[2:]:
            raise UserError("its arrays have other shapes than those that training writes")
    return [views[chosen] for views, chosen in zip(patches, valid, strict=True) if chosen.any()]


def _pairs(patches: np.ndarray, distance: Iterable[float], name: str, of: str) -> Gallery:
    title, text = _WORDS[name]
    images = [
        _tile(pair[:, None, :, :, None], f"{value:.2f}", f"a pair at distance {value:.2f}")
        for pair, value in zip(patches, distance, strict=True)
    ]
    return Gallery(images, text, f"{title}{of}", wide=False)


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
