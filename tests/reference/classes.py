"""Samples with labels for the losses on classes: which pairs count, one after the other."""

import numpy as np

from reference.formula import Formula, unit
from reference.mining import dot


class Samples:
    """Unit vectors (N, D) with a label each, None for a sample that does not exist; ``ignore`` (N, N) or None."""

    def __init__(self, vectors, labels, ignore=None):
        self.vectors = unit(np.asarray(vectors, dtype=np.float64))
        self.labels = list(labels)
        self.existing = [i for i, label in enumerate(self.labels) if label is not None]
        pairs = [
            (i, j) for i in self.existing for j in self.existing if i != j and (ignore is None or not ignore[i][j])
        ]
        self.positives = [(i, j) for i, j in pairs if self.labels[i] == self.labels[j]]
        self.negatives = [(i, j) for i, j in pairs if self.labels[i] != self.labels[j]]

    def positives_of(self, anchor):
        return [j for i, j in self.positives if i == anchor]

    def negatives_of(self, anchor):
        return [j for i, j in self.negatives if i == anchor]

    def squared(self, i, j):
        return sum((s - t) ** 2 for s, t in zip(self.vectors[i], self.vectors[j], strict=True))

    def cosine(self, i, j):
        return dot(self.vectors[i], self.vectors[j])


def mean(values):
    return sum(values) / len(values) if values else 0.0


def class_formula(loss):
    """``loss(samples, **settings)`` as a reference on batches of (points, views, dim), a class being a point."""

    def reference(settings, points, dim):
        def value(raw, valid=None, ignore=None):
            labels = [p if valid is None or valid[p][v] else None for p, v in np.ndindex(raw.shape[:2])]
            return loss(Samples(raw.reshape(-1, raw.shape[2]), labels, ignore), **settings)

        return Formula(value)

    return reference
