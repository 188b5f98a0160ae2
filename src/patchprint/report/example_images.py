"""Example patches: pairs with wrong distances."""

from collections.abc import Iterable

import numpy as np

from patchprint.report.embedded_images import EmbeddedImage, Gallery

_FRAME = 128  # gray, so that a white patch ends somewhere on a white page
_LARGER, _SMALL = 2, 64  # how many times a patch is enlarged that has fewer pixels along its side
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


def _tile(pair: np.ndarray, caption: str, alt: str) -> EmbeddedImage:
    """Compose two patches (2, S, S), one above the other, each in a frame."""
    framed = np.pad(pair, ((0, 0), (1, 0), (1, 1)), constant_values=_FRAME)
    pixels = np.pad(np.concatenate(framed), ((0, 1), (0, 0)), constant_values=_FRAME)
    return EmbeddedImage.from_pixels(pixels, caption, alt, larger=_LARGER if pair.shape[1] < _SMALL else 1)
