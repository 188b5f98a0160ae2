"""Keypoint detectors: one file each, and one `detect` for all of them.

A file ``NAME.py`` in this folder is a detector: it holds ``detector = Detector(...)``. Named settings of it are called
``NAME-SETTING``, as in ``dog-published`` or ``harris-affine``. A file is imported when its detector is asked for.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from patchprint.common.devices import reuse_memory, supports_triton
from patchprint.common.errors import UserError
from patchprint.common.registry import FileRegistry
from patchprint.common.types import Keypoints
from patchprint.detectors import _tiles

MAX_KEYPOINTS = 4096
FAINTEST = 1e-10  # responses below this are rounding errors in uniform areas
_SMALLEST = 32  # pixels along the longer side of an image that was made smaller
_CELL = 16  # keypoints that a cell of the spreading grid should hold

# Image uint8 (H, W), how many keypoints are wanted at least (None: the detector's own number), mask (H, W) or None.
Find = Callable[[np.ndarray, int | None, np.ndarray | None], Keypoints]
# The same on a CUDA device, where the keypoints stay.
FindOnGpu = Callable[[np.ndarray, int | None, np.ndarray | None, torch.device], Keypoints]


@dataclass(frozen=True)
class Detector:
    """A keypoint detector.

    ``finds`` is the structure it responds to, which selects the known images that test its positions, scales and angles.
    ``find`` may return more than are wanted; ``detect`` keeps the strongest. A detector without scores is ordered by scale,
    one that knows no scale or no angle returns a fixed scale and angle 0. ``settings`` are named sets of further arguments
    of ``find``. ``package`` is what must be installed for it. ``find_on_gpu`` finds the same keypoints on a CUDA device but for
    one or two in a thousand; without it they are found on the CPU.
    """

    summary: str
    finds: Literal["blobs", "corners", "other"]
    find: Find
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    package: str = "cv2"
    find_on_gpu: FindOnGpu | None = None

    def variants(self) -> dict[str, Detector]:
        """Return the detector with each of its named settings."""
        found = {}
        for setting, arguments in self.settings.items():
            text = ", ".join(f"{name} {value}" for name, value in arguments.items())
            changed: dict[str, Any] = {"summary": f"{self.summary}; {text}", "settings": {}}
            changed["find"] = functools.partial(self.find, **arguments)
            if self.find_on_gpu is not None:
                changed["find_on_gpu"] = functools.partial(self.find_on_gpu, **arguments)
            found[setting] = dataclasses.replace(self, **changed)
        return found


DETECTORS: FileRegistry[Detector] = FileRegistry("detector", __name__, __path__, "detector", Detector.variants)


@dataclass(frozen=True, kw_only=True)
class DetectSettings:
    """How keypoints are found in an image; valid once constructed."""

    # What finds keypoints; the affine detectors are for views from far apart.
    detector: str = "dog"
    # Most keypoints of an image; those with the highest responses are kept.
    max_keypoints: int | None = MAX_KEYPOINTS
    # Shrink an image whose longer side has more pixels than this (default: never); coordinates stay those of the image.
    max_size: int | None = None
    # Set all angles to zero: better where the camera was always held level, hopeless where it was not.
    upright: bool = False
    # Distribute keypoints over the image; without it the strongest are kept, wherever they are.
    spread: bool = True
    # Turn the image as its EXIF orientation says; by default pixels are taken as stored, as COLMAP does.
    exif: bool = False

    def __post_init__(self) -> None:
        check_detector(self.detector, self.max_keypoints)
        if self.max_size is not None and self.max_size < _SMALLEST:
            raise UserError(f"max_size must be at least {_SMALLEST} pixels, got {self.max_size}")


def check_detector(detector: str, max_keypoints: int | None) -> Detector:
    """Return the detector of this name, or `learned` with the weights in this file.

    Raises UserError for an unknown one and for a limit below 1.
    """
    if max_keypoints is not None and max_keypoints < 1:
        raise UserError(f"max_keypoints must be at least 1, got {max_keypoints}")
    if detector.endswith(".safetensors"):
        learned: Any = DETECTORS["learned"]
        finds = {name: functools.partial(getattr(learned, name), weights=detector) for name in ("find", "find_on_gpu")}
        return dataclasses.replace(learned, **finds)
    return DETECTORS[detector]


def searches_on_gpu(detector: Detector, device: torch.device) -> bool:
    """Whether ``device`` is a GPU on which the detector searches."""
    return detector.find_on_gpu is not None and supports_triton(device)


def detect(
    image: np.ndarray,
    detector: str = "dog",
    *,
    max_keypoints: int | None = MAX_KEYPOINTS,
    mask: np.ndarray | None = None,
    spread: bool = True,
    upright: bool = False,
    device: str | torch.device = "cpu",
) -> Keypoints:
    """Detect the keypoints of an image, strongest first; the result is on the CPU.

    Args:
        image: uint8 (H, W).
        detector: a name in DETECTORS.
        max_keypoints: how many to keep, by response. None leaves it to the detector: COLMAP's finds 8192 and does not count
            second angles (of each tile, where the image is large); "dog" finds all.
        mask: (H, W); keypoints where it is zero are left out.
        spread: give every part of the image its share before the strongest fill the rest.
        upright: set all angles to zero, and count a point that was found with two angles once.
        device: where they are searched, if `searches_on_gpu`.
    """
    chosen, place = check_detector(detector, max_keypoints), torch.device(device)
    if mask is not None and np.shape(mask) != image.shape:
        raise UserError(f"the mask has shape {np.shape(mask)}, the image {image.shape}; they must be equal")
    size = (image.shape[1], image.shape[0])
    reuse_memory()

    def search(pixels: np.ndarray, allowed: np.ndarray | None) -> Keypoints:
        if chosen.find_on_gpu is not None and searches_on_gpu(chosen, place):
            found = chosen.find_on_gpu(pixels, max_keypoints, allowed, place)
        else:
            found = chosen.find(pixels, max_keypoints, allowed)
        return found.upright().unique_places() if upright else found

    def search_tile(pixels: np.ndarray, allowed: np.ndarray | None) -> Keypoints:
        return search(pixels, allowed).to("cpu")

    def keep(found: Keypoints) -> Keypoints:
        return found if max_keypoints is None else candidates(found, max_keypoints, size, spread)

    whole = image.size <= _tiles.WHOLE
    found = search(image, mask) if whole else _tiles.search_in_tiles(image, mask, search_tile, keep)
    return select(found, len(found) if max_keypoints is None else max_keypoints, size, spread).to("cpu")


def keep_inside(keypoints: Keypoints, mask: np.ndarray | None) -> Keypoints:
    """Select the keypoints where the mask (H, W) is not zero."""
    if mask is None or len(keypoints) == 0:
        return keypoints
    column, row = keypoints.xy.round().long().unbind(1)
    allowed = torch.from_numpy(np.asarray(mask) != 0).to(keypoints.xy.device)
    return keypoints[allowed[row.clamp(0, allowed.shape[0] - 1), column.clamp(0, allowed.shape[1] - 1)]]


def strongest_first(keypoints: Keypoints, count: int | None = None) -> Keypoints:
    """Order keypoints by score, or by scale where there is none; the first ``count``."""
    score = keypoints.scale if keypoints.score is None else keypoints.score
    return keypoints[torch.argsort(score, descending=True, stable=True)[:count]]


def select(keypoints: Keypoints, count: int, image_size: tuple[int, int], spread: bool = True) -> Keypoints:
    """Select the ``count`` strongest keypoints; with ``spread``, each cell of a grid gets its share first."""
    ordered = strongest_first(keypoints)
    if not spread or len(ordered) <= count:
        return ordered[:count]
    beyond_share = _beyond_share(ordered, count, image_size)
    return ordered[torch.argsort(beyond_share.int(), stable=True)[:count].sort().values]


def candidates(keypoints: Keypoints, count: int, image_size: tuple[int, int], spread: bool = True) -> Keypoints:
    """Select keypoints in a part of an image that `select` may choose from all of them, strongest first."""
    ordered = strongest_first(keypoints)
    if not spread or len(ordered) <= count:
        return ordered[:count]
    return ordered[
        (torch.arange(len(ordered), device=ordered.xy.device) < count) | ~_beyond_share(ordered, count, image_size)
    ]


def _beyond_share(ordered: Keypoints, count: int, image_size: tuple[int, int]) -> Tensor:
    """Which keypoints come after the share of their cell of the grid, (N,) bool."""
    cells = max(1, int((count / _CELL) ** 0.5))  # along a side
    column, row = ((ordered.xy[:, i] / image_size[i] * cells).long().clamp(0, cells - 1) for i in (0, 1))
    cell, order = (row * cells + column).sort(stable=True)
    rank = torch.empty_like(order)  # in its cell
    rank[order] = torch.arange(len(order), device=order.device) - torch.searchsorted(cell, cell)
    return rank >= count // cells**2


__all__ = ["DETECTORS", "MAX_KEYPOINTS", "DetectSettings", "Detector", "detect", "select"]
