"""Pictures out of a run: patches that it learned from, and pairs that its last weights got wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from patchprint.errors import UserError
from patchprint.reading import parsing, read_npz
from patchprint.report.page import Part, Section
from patchprint.report.pictures import Picture
from patchprint.report.runs import Run
from patchprint.training.examples import HARDEST, PATCHES

_GAP, _WHITE = 4, 255
_LARGER = 2  # times, so that a patch of 32 pixels can be seen
_WORDS = {
    "missed": (
        "Missed: two views of one point that lie farthest apart",
        "views above each other show the same point",
    ),
    "confused": (
        "Confused: two different points that lie nearest to each other",
        "patches above each other show different points",
    ),
}


def example_sections(runs: Sequence[Run]) -> list[Section]:
    """What was hardest, and what was learned from, of each run that recorded them."""
    hardest: list[Part] = []
    sheets: list[Part] = []
    for run in runs:
        of = f" ({run.label})" if len(runs) > 1 else ""
        hardest += [_strip(*pairs, name, of) for name, pairs in _read_hardest(run).items()]
        sheet = _read_sheet(run)
        if sheet is not None:
            caption = (
                f"Some of the points that it learned from{of}: a point in each row of a block, in up to six views."
            )
            sheets.append(Picture.from_pixels(sheet, caption, f"Training patches{of}", sharp=True))
    sections = [Section("Where it goes wrong", hardest)] if hardest else []
    return sections + ([Section("What it learned from", sheets)] if sheets else [])


def _read_hardest(run: Run) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Patches (C, 2, S, S) and distances (C,) of each kind of pair."""
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


def _read_sheet(run: Run) -> np.ndarray | None:
    """Pixels (H, W) or (H, W, 3)."""
    file = run.folder / PATCHES
    sheet: Any = read_npz(file, "the patches of a run").get("sheet") if file.is_file() else None
    if sheet is None:
        return None
    with parsing(file, "the patches of a run"):
        is_picture = sheet.ndim == 2 or (sheet.ndim == 3 and sheet.shape[2] == 3)
        if not is_picture or sheet.dtype != np.uint8 or 0 in sheet.shape:
            raise UserError("it holds no picture of gray or colored pixels")
    return sheet


def _strip(patches: np.ndarray, distance: np.ndarray, name: str, of: str) -> Picture:
    """Pairs side by side, the two patches of each above each other."""
    title, hint = _WORDS[name]
    cells = np.pad(patches, ((0, 0), (0, 0), (0, _GAP // 2), (0, _GAP)), constant_values=_WHITE)
    count, _, height, width = cells.shape
    strip = cells.transpose(1, 2, 0, 3).reshape(2 * height, count * width)[:, :-_GAP]
    strip = strip.repeat(_LARGER, 0).repeat(_LARGER, 1)
    distances = ", ".join(f"{value:.2f}" for value in distance)
    caption = f"{title}{of}; {hint}, hardest first. Distances: {distances}."
    return Picture.from_pixels(strip, caption, f"{title}{of}", sharp=True)
