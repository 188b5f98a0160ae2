"""Synthetic patches with the statistics of natural images: opaque discs that occlude each other (dead leaves).

Edges, occlusions and flat parts at all sizes are as frequent in such pictures as in the world (A. Lee, D. Mumford and J. Huang,
Occlusion models for natural images, IJCV 41, 2001). Networks are shown them to find out how large their activations get.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_SMALLEST, _LARGEST = 1.5, 60.0  # radii in pixels
_LEAVES = 120  # enough to cover a patch of 32 pixels with few gaps


def dead_leaves(count: int, size: int, seed: int = 0) -> Tensor:
    """Patches (count, 1, size, size) float32 in [0, 1], the same for the same seed."""
    rng = np.random.default_rng(seed)
    shape = (count, _LEAVES)
    # The number of discs falls with the third power of the radius, as it does where scenes look alike from near and far.
    share = rng.random(shape)
    radius = 1 / np.sqrt(share / _SMALLEST**2 + (1 - share) / _LARGEST**2)
    x, y = (rng.uniform(-radius, size + radius) for _ in range(2))
    gray = rng.beta(0.7, 0.7, shape)
    patches = np.full((count, size, size), 0.5)
    blur = np.exp2(rng.uniform(0, 2, count))  # pixels in which an edge fades
    place = np.arange(size)
    for leaf in range(_LEAVES):
        # Most discs are small: only the pixels of the square around each are looked at.
        across, down = place - x[:, leaf, None], place - y[:, leaf, None]
        reach = (radius[:, leaf] + blur)[:, None]
        which, row, column = np.nonzero((abs(down) < reach)[:, :, None] & (abs(across) < reach)[:, None])
        distance = radius[which, leaf] - np.hypot(across[which, column], down[which, row])
        cover = np.clip(distance / blur[which] + 0.5, 0, 1)
        before = patches[which, row, column]
        patches[which, row, column] = before + cover * (gray[which, leaf] - before)
    light = rng.uniform(0.3, 1.0, (count, 1, 1))
    noise = rng.normal(0, 1, patches.shape) * rng.exponential(0.01, (count, 1, 1))
    return torch.from_numpy(np.clip(patches * light + noise, 0, 1)).float()[:, None]
