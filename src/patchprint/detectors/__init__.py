"""Keypoint detectors: one file each, and one `detect` for all of them.

A file ``NAME.py`` in this folder is a detector: it holds ``detector = Detector(...)``. Named settings of it are called
``NAME-SETTING``, as in ``dog-published`` or ``harris-affine``. A file is imported when its detector is asked for.
"""

from __future__ import annotations

import numpy as np

from patchprint.common.errors import UserError
from patchprint.common.registry import FileRegistry
from patchprint.detectors import _tiles
from patchprint.detectors._detector import Detector, candidates, select
from patchprint.types import Keypoints

MAX_KEYPOINTS = 4096

DETECTORS: FileRegistry[Detector] = FileRegistry(
    "detector",
    __name__,
    __path__,
    "detector",
    variants=lambda detector: {setting: detector.named(setting) for setting in detector.settings},
)


def check_detector(detector: str, max_keypoints: int | None) -> Detector:
    """Return the detector of this name; raises UserError for an unknown one and for a limit below 1."""
    if max_keypoints is not None and max_keypoints < 1:
        raise UserError(f"max_keypoints must be at least 1, got {max_keypoints}")
    return DETECTORS[detector]


def detect(
    image: np.ndarray,
    detector: str = "dog",
    *,
    max_keypoints: int | None = MAX_KEYPOINTS,
    mask: np.ndarray | None = None,
    spread: bool = True,
    upright: bool = False,
) -> Keypoints:
    """Detect the keypoints of an image, strongest first.

    Args:
        image: uint8 (H, W).
        detector: a name in DETECTORS.
        max_keypoints: how many to keep, by response. None leaves it to the detector: COLMAP's finds 8192 and does not count
            second angles (of each tile, where the image is large); "dog" finds all.
        mask: (H, W); keypoints where it is zero are left out.
        spread: give every part of the image its share before the strongest fill the rest.
        upright: set all angles to zero, and count a point that was found with two angles once.
    """
    chosen = check_detector(detector, max_keypoints)
    if mask is not None and np.shape(mask) != image.shape:
        raise UserError(f"the mask has shape {np.shape(mask)}, the image {image.shape}; they must be equal")
    size = (image.shape[1], image.shape[0])

    def search(pixels: np.ndarray, allowed: np.ndarray | None) -> Keypoints:
        found = chosen.find(pixels, max_keypoints, allowed)
        return found.upright().unique_places() if upright else found

    def keep(found: Keypoints) -> Keypoints:
        return found if max_keypoints is None else candidates(found, max_keypoints, size, spread)

    whole = image.size <= _tiles.WHOLE
    found = search(image, mask) if whole else _tiles.search_in_tiles(image, mask, search, keep)
    return select(found, len(found) if max_keypoints is None else max_keypoints, size, spread)


__all__ = ["DETECTORS", "MAX_KEYPOINTS", "Detector", "detect", "select"]
