"""SEC and the norm penalty, from the formulas. Embeddings are raw vectors (N, D)."""

from reference.mining import dot, norm


def sphere_deviation(x, center=None):
    norms = [norm(v) for v in x]
    center = sum(norms) / len(norms) if center is None else center
    return sum((n - center) ** 2 for n in norms) / len(norms)


def mean_squared_norm(x):
    return sum(dot(v, v) for v in x) / len(x)
