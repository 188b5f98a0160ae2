"""Keypoints of a picture: which detector, how many, where, and large pictures in tiles so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from patchprint.errors import UserError
from patchprint.interop import colmap, kornia, opencv
from patchprint.types import Keypoints

MAX_KEYPOINTS = 4096
DETECTORS: dict[str, str] = {
    "dog": "differences of Gaussians (OpenCV SIFT, precise upscale)",
    "colmap": "differences of Gaussians as COLMAP finds them; no score, larger scales count as stronger",
    "harris": "multi-scale Harris corners (kornia)",
    "harris-affine": "the same with elliptic shape",
    "hessian": "Hessian blobs (kornia)",
    "hessian-affine": "the same with elliptic shape",
}

CONTRAST = 0.02  # COLMAP's peak threshold in OpenCV's unit; OpenCV's own 0.04 leaves large photos with few keypoints
WHOLE = 8_000_000  # pixels up to which a picture is searched in one piece
TILE = (
    2048  # side of the core of a tile; a power of two, so that tiles sample the pyramid on the same grid as the whole
)
MARGIN = 256  # pixels around the core that a tile sees as well
LARGEST_IN_TILE = 24.0  # scales above this are found in the halved picture, where the margin is large enough for them
CELL = 16  # keypoints that a cell of the spreading grid should hold

Search = Callable[[np.ndarray, np.ndarray | None], Keypoints]


def detect(
    image: np.ndarray,
    detector: str = "dog",
    max_keypoints: int | None = MAX_KEYPOINTS,
    mask: np.ndarray | None = None,
    spread: bool = True,
    upright: bool = False,
) -> Keypoints:
    """Keypoints of a picture, strongest first.

    Args:
        image: uint8 (H, W).
        detector: a name in DETECTORS.
        max_keypoints: how many to keep, by response. None leaves it to the detector: COLMAP's finds 8192 and does not count
            second angles (of each tile, where the picture is large); "dog" finds all.
        mask: (H, W); keypoints where it is zero are left out.
        spread: give every part of the picture its share before the strongest fill the rest.
        upright: all angles zero, and a point that was found with two angles counts once.
    """
    if max_keypoints is not None and max_keypoints < 1:
        raise UserError(f"max_keypoints must be at least 1, got {max_keypoints}")
    if mask is not None and np.shape(mask) != image.shape:
        raise UserError(f"the mask has shape {np.shape(mask)}, the picture {image.shape}; they must be equal")
    search = _search(detector, max_keypoints)
    found = _detect_at_any_size(image, mask, search)
    if upright:
        found = _without_second_angles(found.upright())
    count = len(found) if max_keypoints is None else max_keypoints
    return select(found, count, (image.shape[1], image.shape[0]), spread)


def select(keypoints: Keypoints, count: int, image_size: tuple[int, int], spread: bool = True) -> Keypoints:
    """The ``count`` strongest keypoints; with ``spread``, each cell of a grid first sends its share, if it has it."""
    score = keypoints.scale if keypoints.score is None else keypoints.score
    order = torch.argsort(score, descending=True, stable=True)
    if spread and len(order) > count:
        width, height = image_size
        cells_per_side = max(1, int((count / CELL) ** 0.5))
        column = (keypoints.xy[order, 0] / width * cells_per_side).long().clamp(0, cells_per_side - 1)
        row = (keypoints.xy[order, 1] / height * cells_per_side).long().clamp(0, cells_per_side - 1)
        beyond_share = _rank_within(row * cells_per_side + column) >= count // cells_per_side**2
        order = order[torch.argsort(beyond_share.int(), stable=True)][:count]
        order = order[torch.argsort(score[order], descending=True, stable=True)]
    return keypoints[order[:count]]


def _search(detector: str, max_keypoints: int | None) -> Search:
    if detector == "dog":
        return lambda image, mask: opencv.detect_sift(image, None, CONTRAST, mask=mask)
    if detector == "colmap":
        return lambda image, mask: _inside(colmap.detect_colmap_sift(image, max_keypoints), mask)
    kind, _, shape = detector.partition("-")
    if detector in DETECTORS and kind in ("harris", "hessian"):
        function = kornia.detect_harris if kind == "harris" else kornia.detect_hessian
        return lambda image, mask: function(image, max_keypoints or MAX_KEYPOINTS, affine=shape == "affine", mask=mask)
    raise UserError(f"unknown detector {detector!r}; known are {', '.join(DETECTORS)}")


def _detect_at_any_size(image: np.ndarray, mask: np.ndarray | None, search: Search) -> Keypoints:
    """Search the whole, or tiles for the small scales and the halved picture (itself tiled where large) for the others."""
    if image.size <= WHOLE:
        return search(image, mask)
    height, width = image.shape
    parts = []
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            y, x = max(top - MARGIN, 0), max(left - MARGIN, 0)
            window = np.s_[y : top + TILE + MARGIN, x : left + TILE + MARGIN]
            found = search(np.ascontiguousarray(image[window]), None if mask is None else np.asarray(mask)[window])
            found = _moved(found, 1.0, (x, y))
            corner = torch.tensor([left - 0.5, top - 0.5])
            in_core = ((found.xy >= corner) & (found.xy < corner + TILE)).all(1)
            parts.append(found[in_core & (found.scale <= LARGEST_IN_TILE)])
    coarse = _detect_at_any_size(_halved(image), None if mask is None else np.asarray(mask)[::2, ::2], search)
    coarse = _moved(coarse, 2.0, (0.5, 0.5))
    return _joined([*parts, coarse[coarse.scale > LARGEST_IN_TILE]])


def _halved(image: np.ndarray) -> np.ndarray:
    """Mean of 2 x 2 pixels; an odd last row or column is repeated."""
    pixels = torch.from_numpy(np.pad(image, [(0, side % 2) for side in image.shape], mode="edge"))
    rows = [F.avg_pool2d(part[None, None].float(), 2)[0, 0].round().to(torch.uint8) for part in pixels.split(1024)]
    return torch.cat(rows).numpy()


def _moved(keypoints: Keypoints, factor: float, offset: tuple[float, float]) -> Keypoints:
    """Keypoints of a part or a smaller copy in the coordinates of the picture: ``xy * factor + offset``."""
    return Keypoints(
        keypoints.xy * factor + torch.tensor(offset),
        keypoints.scale * factor,
        keypoints.angle,
        keypoints.score,
        None if keypoints.affine is None else keypoints.affine * factor,
    )


def _joined(parts: list[Keypoints]) -> Keypoints:
    parts = [part for part in parts if len(part)]
    if not parts:
        return Keypoints.empty()
    affine = torch.cat([part.frames() for part in parts]) if any(part.affine is not None for part in parts) else None
    score = (
        None
        if any(part.score is None for part in parts)
        else torch.cat([p.score for p in parts if p.score is not None])
    )
    xy, scale, angle = (torch.cat([getattr(part, name) for part in parts]) for name in ("xy", "scale", "angle"))
    return Keypoints(xy, scale, angle, score, affine)


def _inside(keypoints: Keypoints, mask: np.ndarray | None) -> Keypoints:
    if mask is None or len(keypoints) == 0:
        return keypoints
    column, row = keypoints.xy.round().long().unbind(1)
    allowed = torch.from_numpy(np.asarray(mask) != 0)
    return keypoints[allowed[row.clamp(0, allowed.shape[0] - 1), column.clamp(0, allowed.shape[1] - 1)]]


def _without_second_angles(keypoints: Keypoints) -> Keypoints:
    places = torch.cat([keypoints.xy, keypoints.scale[:, None]], 1).numpy()
    _, first = np.unique(places, axis=0, return_index=True)
    return keypoints[np.sort(first)]


def _rank_within(group: torch.Tensor) -> torch.Tensor:
    """How many earlier entries belong to the same group, (N,)."""
    order = torch.argsort(group, stable=True)
    ordered = group[order]
    position = torch.arange(len(group))
    is_first = torch.ones_like(ordered, dtype=torch.bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    start = torch.cummax(torch.where(is_first, position, 0), 0).values
    rank = torch.empty_like(position)
    rank[order] = position - start
    return rank
