"""Random resized crops: center and size per patch or image."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from patchprint.common import rng


def random_crops(key: Tensor, extent: Tensor, smallest: float, ratios: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Half sides and centers of crops that cover ``smallest`` to 1 of the area, width by height within ``ratios``.

    A drawn crop that is longer than the image on one side is cut there (the usual code draws again instead).

    Shape:
        key 0-dim; extent (P, K, 2), half width and half height of what can be cropped -> (P, K, 2), (P, K, 2).
    """
    shape = (extent.shape[0], extent.shape[1])
    area = rng.uniform(rng.fold_in(key, 0), shape, smallest, 1.0) * extent.prod(-1)
    low, high = (math.log(ratio) for ratio in ratios)
    ratio = torch.exp(rng.uniform(rng.fold_in(key, 1), shape, low, high))
    size = torch.minimum(torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], -1), extent)
    return size, rng.uniform(rng.fold_in(key, 2), (*shape, 2), -1.0, 1.0) * (extent - size)
