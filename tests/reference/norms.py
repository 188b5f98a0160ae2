"""SEC and the norm penalty, from the formulas. Embeddings are raw vectors (N, D)."""

from __future__ import annotations

import numpy as np

from reference.mining import dot, norm


def sphere_deviation(x, center=None):
    norms = [norm(v) for v in x]
    center = sum(norms) / len(norms) if center is None else center
    return sum((n - center) ** 2 for n in norms) / len(norms)


def sphere_deviation_gradient(x, center):
    """Along each vector, in proportion to how much longer than ``center`` it is."""
    return np.array([[2 / len(x) * (norm(v) - center) * s / norm(v) for s in v] for v in x])


def mean_squared_norm(x):
    return sum(dot(v, v) for v in x) / len(x)
