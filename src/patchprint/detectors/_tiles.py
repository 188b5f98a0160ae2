"""Images of any size: large ones are searched in tiles, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from patchprint.types import Keypoints

WHOLE = 8_000_000  # pixels up to which an image is searched in one piece
TILE = (
    2048  # side of the core of a tile; a power of two, so that tiles sample the pyramid on the same grid as the whole
)
MARGIN = 256  # pixels around the core that a tile sees as well
LARGEST_IN_TILE = 24.0  # scales above this are found in the halved image, where the margin is large enough for them

Search = Callable[[np.ndarray, np.ndarray | None], Keypoints]


def search_at_any_size(image: np.ndarray, mask: np.ndarray | None, search: Search) -> Keypoints:
    """Search the whole, or tiles for the small scales and the halved image (itself tiled where large) for the others."""
    if image.size <= WHOLE:
        return search(image, mask)
    height, width = image.shape
    parts = []
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            y, x = max(top - MARGIN, 0), max(left - MARGIN, 0)
            window = np.s_[y : top + TILE + MARGIN, x : left + TILE + MARGIN]
            found = search(np.ascontiguousarray(image[window]), None if mask is None else np.asarray(mask)[window])
            found = found.moved(1.0, (x, y))
            corner = torch.tensor([left - 0.5, top - 0.5])
            in_core = ((found.xy >= corner) & (found.xy < corner + TILE)).all(1)
            parts.append(found[in_core & (found.scale <= LARGEST_IN_TILE)])
    coarse = search_at_any_size(_halved(image), None if mask is None else np.asarray(mask)[::2, ::2], search)
    coarse = coarse.moved(2.0, (0.5, 0.5))
    return Keypoints.concatenate([*parts, coarse[coarse.scale > LARGEST_IN_TILE]])


def _halved(image: np.ndarray) -> np.ndarray:
    """Mean of 2 x 2 pixels; an odd last row or column is repeated."""
    pixels = torch.from_numpy(np.pad(image, [(0, side % 2) for side in image.shape], mode="edge"))
    rows = [F.avg_pool2d(part[None, None].float(), 2)[0, 0].round().to(torch.uint8) for part in pixels.split(1024)]
    return torch.cat(rows).numpy()
