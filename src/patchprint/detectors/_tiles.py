"""Images of any size: large ones are searched in tiles, so that memory stays bounded."""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from patchprint.common.types import Keypoints

WHOLE = 8_000_000  # pixels up to which an image is searched in one piece
PIECE = 2_000_000  # the same for the shrunk copy of an image that was tiled: about what a tile holds
# Side of the core of a tile: a power of two, so that tiles sample the pyramid on the same grid as the whole. A larger
# one overlaps less with its neighbors, but SIFT needs some 240 bytes of memory for every pixel of it.
TILE = 1024
# Pixels around the core that a tile sees as well. OpenCV's SIFT looks about 8.5 sigma far: 4.5 for the angle, 4 for the blur.
MARGIN = 128
LARGEST_IN_TILE = 12.0  # scales above this are found in the shrunk image, where the margin is large enough for them
SHRINK = 4  # times smaller: the largest scale of a tile is then 3 pixels, which detectors find well

Search = Callable[[np.ndarray, np.ndarray | None], Keypoints]


def search_in_tiles(
    image: np.ndarray,
    mask: np.ndarray | None,
    search: Search,
    keep: Callable[[Keypoints], Keypoints] = lambda found: found,
    above: float = 0.0,
) -> Keypoints:
    """Search tiles for the small scales, and a shrunk copy of the image (itself tiled where large) for the others.

    Args:
        keep: the keypoints of a tile that may be of use; the others are dropped before the next tile is searched.
        above: keypoints up to this scale are dropped.
    """
    height, width = image.shape
    parts = []
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            y, x = max(top - MARGIN, 0), max(left - MARGIN, 0)
            window = np.s_[y : top + TILE + MARGIN, x : left + TILE + MARGIN]
            found = search(np.ascontiguousarray(image[window]), None if mask is None else np.asarray(mask)[window])
            found = found.rescale(1.0, (x, y))
            corner = torch.tensor([left - 0.5, top - 0.5])
            in_core = ((found.xy >= corner) & (found.xy < corner + TILE)).all(1)
            parts.append(keep(found[in_core & (found.scale > above) & (found.scale <= LARGEST_IN_TILE)]))
    shrunk, least = _shrink(image), max(above, LARGEST_IN_TILE) / SHRINK
    coarse_mask = None if mask is None else np.asarray(mask)[::SHRINK, ::SHRINK]
    if shrunk.size <= PIECE:
        coarse = search(shrunk, coarse_mask)
        coarse = coarse[coarse.scale > least]
    else:
        coarse = search_in_tiles(shrunk, coarse_mask, search, above=least)
    return Keypoints.concatenate([*parts, coarse.rescale(SHRINK, ((SHRINK - 1) / 2, (SHRINK - 1) / 2))])


def _shrink(image: np.ndarray) -> np.ndarray:
    """Mean of SHRINK x SHRINK pixels; what is missing at the right and below repeats the last column and row."""
    missing = [(0, -side % SHRINK) for side in image.shape]
    pixels = torch.from_numpy(np.pad(image, missing, mode="edge") if np.any(missing) else image)
    rows = [
        F.avg_pool2d(part[None, None].float(), SHRINK)[0, 0].round().to(torch.uint8)
        for part in pixels.split(256 * SHRINK)
    ]
    return torch.cat(rows).numpy()
