"""Features with random descriptors and no image behind them."""

import numpy as np
import torch
import torch.nn.functional as F

from patchprint.common.types import Features, Keypoints, ModelId


def features(descriptors: torch.Tensor, xy: torch.Tensor | None = None, model: str = "m") -> Features:
    count = len(descriptors)
    xy = torch.rand(count, 2, generator=torch.Generator().manual_seed(count)) * 100 if xy is None else xy
    return Features(Keypoints(xy, torch.ones(count), torch.zeros(count)), descriptors, (100, 100), None, ModelId(model))


def descriptors(count: int, dim: int = 32, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)))


def packed(count: int, seed: int = 0, width: int = 32) -> torch.Tensor:
    return torch.randint(0, 256, (count, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def all_distances(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    """Distances (N, M) as a plain search sees them: Hamming of bits, else Euclidean."""
    if a.dtype == torch.uint8:
        return np.unpackbits(a.numpy()[:, None] ^ b.numpy()[None], axis=2).sum(2).astype(float)
    return np.linalg.norm(a.numpy()[:, None].astype(float) - b.numpy()[None], axis=2)
