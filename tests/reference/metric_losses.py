"""Slow versions of SEC and of the metric-learning losses, from the formulas. Embeddings are raw vectors (N, D)."""

from __future__ import annotations

import math

from reference.mining import dot, norm


def unit(x):
    return [[s / norm(v) for s in v] for v in x]


def sphere_deviation(x, center=None):
    norms = [norm(v) for v in x]
    center = sum(norms) / len(norms) if center is None else center
    return sum((n - center) ** 2 for n in norms) / len(norms)


def mean_squared_norm(x):
    return sum(dot(v, v) for v in x) / len(x)


def _relations(labels):
    ordered = [(i, j) for i in range(len(labels)) for j in range(len(labels)) if i != j]
    return [(i, j) for i, j in ordered if labels[i] == labels[j]], [
        (i, j) for i, j in ordered if labels[i] != labels[j]
    ]


def semi_hard_triplet(x, labels, margin=0.2):
    vectors = unit(x)

    def squared(i, j):
        return sum((s - t) ** 2 for s, t in zip(vectors[i], vectors[j], strict=True))

    positives, negatives = _relations(labels)
    losses = []
    for a, p in positives:
        far = [squared(a, n) for i, n in negatives if i == a]
        beyond = [d for d in far if d > squared(a, p)]
        losses.append(max(0.0, margin + squared(a, p) - (min(beyond) if beyond else max(far))))
    return sum(losses) / len(losses)


def normalized_n_pair(x, labels, scale=25.0):
    vectors = unit(x)
    members = {}
    for i, label in enumerate(labels):
        members.setdefault(label, []).append(i)
    pairs = [ids[:2] for ids in members.values() if len(ids) >= 2]
    total = 0.0
    for anchor, positive in pairs:
        own = scale * dot(vectors[anchor], vectors[positive])
        total += math.log(sum(math.exp(scale * dot(vectors[anchor], vectors[q]) - own) for _, q in pairs))
    return total / len(pairs)


def tuplet_margin(x, labels, slack=0.1, scale=64.0, variance_weight=0.5, tolerance=0.01):
    vectors = unit(x)
    positives, negatives = _relations(labels)

    def cosine(i, j):
        return dot(vectors[i], vectors[j])

    total = 0.0
    for a, p in positives:
        eased = math.cos(math.acos(cosine(a, p)) - slack)
        crowd = sum(math.exp(scale * (cosine(a, n) - eased)) for i, n in negatives if i == a)
        total += math.log1p(crowd) / len(positives)
    mean_p = sum(cosine(*pair) for pair in positives) / len(positives)
    mean_n = sum(cosine(*pair) for pair in negatives) / len(negatives)
    low = sum(max(0.0, (1 - tolerance) * mean_p - cosine(*pair)) ** 2 for pair in positives) / len(positives)
    high = sum(max(0.0, cosine(*pair) - (1 + tolerance) * mean_n) ** 2 for pair in negatives) / len(negatives)
    return total + variance_weight * (low + high)
