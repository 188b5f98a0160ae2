"""Distances between prints, for floats and for packed bits, with equal prints at exactly equal distances.

Distances are computed in float64 and rounded to 1e-9 (squared): a matrix product adds numbers in another order near its
borders, and without rounding such noise would break ties, and rank constant prints by their place in the file.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_CHUNK = 2048
_STEP = 2.0**-30


def as_vectors(descriptors: Tensor | np.ndarray) -> Tensor:
    """Float64 vectors whose squared distance ranks the prints; packed bits become 0 and 1, so it is the Hamming distance.

    Shape:
        (N, D) float or (N, D) uint8 packed bits -> (N, D) or (N, 8 D) float64
    """
    descriptors = torch.as_tensor(descriptors)
    if descriptors.dtype != torch.uint8:
        return descriptors.double()
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=descriptors.device)
    return ((descriptors[:, :, None] >> shifts) & 1).flatten(1).double()


def pair_distances(a: Tensor | np.ndarray, b: Tensor | np.ndarray) -> np.ndarray:
    """Distance of row i of a to row i of b, in chunks: (N, D), (N, D) -> (N,) float64."""
    parts = [
        _root(((as_vectors(x) - as_vectors(y)) ** 2).sum(1))
        for x, y in zip(torch.as_tensor(a).split(_CHUNK), torch.as_tensor(b).split(_CHUNK), strict=True)
    ]
    return torch.cat(parts).cpu().numpy() if parts else np.zeros(0)


def distance_matrix(a: Tensor | np.ndarray, b: Tensor | np.ndarray) -> Tensor:
    """All distances, (N, D), (M, D) -> (N, M) float64."""
    a, b = as_vectors(a), as_vectors(b)
    return _root((a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2.0 * (a @ b.T))


def nearest(a: Tensor | np.ndarray, b: Tensor | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nearest neighbour in b of each row of a, in chunks; of equal ones the first.

    Shape:
        (N, D), (M, D) -> index (N,) int64, distance (N,) float64
    """
    parts = [distance_matrix(rows, b).min(dim=1) for rows in torch.as_tensor(a).split(_CHUNK)]
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0)
    return torch.cat([p.indices for p in parts]).cpu().numpy(), torch.cat([p.values for p in parts]).cpu().numpy()


def chance_of_same_index(a: Tensor | np.ndarray, b: Tensor | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the nearest neighbour of row i of a is row i of b; where k rows are equally near, the chance 1 / k.

    Shape:
        (N, D), (N, D) -> distance of the nearest (N,), chance (N,) in [0, 1]
    """
    distances, chances = [], []
    for start, rows in zip(range(0, len(a), _CHUNK), torch.as_tensor(a).split(_CHUNK), strict=True):
        matrix = distance_matrix(rows, b)
        least = matrix.min(dim=1, keepdim=True).values
        tied = matrix == least
        here = torch.arange(len(rows), device=matrix.device)
        chances.append(tied[here, start + here].double() / tied.sum(1))
        distances.append(least[:, 0])
    return torch.cat(distances).cpu().numpy(), torch.cat(chances).cpu().numpy()


def _root(squared: Tensor) -> Tensor:
    return ((squared / _STEP).round() * _STEP).clamp(min=0.0).sqrt()
