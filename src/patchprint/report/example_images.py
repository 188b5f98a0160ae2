"""Example patches of training runs: pairs with wrong distances."""

from collections.abc import Iterable, Sequence

import numpy as np

from patchprint.common.errors import UserError, parsing
from patchprint.common.safe_io import read_npz
from patchprint.report.embedded_images import EmbeddedImage, Gallery
from patchprint.report.page import Part, Section
from patchprint.report.runs import Run
from patchprint.training.diagnostics import HARDEST, LARGEST_SIDE

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
    """Return a section with the ``hardest`` pairs of others, then those of the runs that recorded them."""
    wrong = list(hardest)
    for run in runs:
        of = f" ({run.label})" if len(runs) > 1 or hardest else ""
        wrong += [pair_gallery(*found, kind, of) for kind, found in _read_hardest(run).items()]
    return [Section("Where it goes wrong", wrong)] if wrong else []


def pair_gallery(patches: np.ndarray, distance: Iterable[float], kind: str, of: str) -> Gallery:
    """Return one of the KINDS of pairs as images.

    Shape:
        patches (C, 2, S, S) uint8, distance (C,).
    """
    title, text = KINDS[kind]
    images = [
        _tile(pair, f"{value:.2f}", f"a pair at distance {value:.2f}")
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
            count, two, height, width = patches.shape
            is_right = two == 2 and height and width and distance.shape == (count,)
            if not is_right or patches.dtype != np.uint8 or distance.dtype.kind != "f":
                raise UserError("its arrays have unexpected shapes or types")
    return {kind: pairs for kind, pairs in found.items() if len(pairs[1])}


def _tile(pair: np.ndarray, caption: str, alt: str) -> EmbeddedImage:
    """Compose two patches (2, S, S), one above the other, each in a frame."""
    framed = np.pad(pair, ((0, 0), (1, 0), (1, 1)), constant_values=_FRAME)
    pixels = np.pad(np.concatenate(framed), ((0, 1), (0, 0)), constant_values=_FRAME)
    return EmbeddedImage.from_pixels(pixels, caption, alt, larger=_LARGER if pair.shape[1] < LARGEST_SIDE else 1)
