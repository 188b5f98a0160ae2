"""The losses of the library that the variants name."""

from __future__ import annotations

import math

from reference.classes import class_formula
from reference.multi_similarity import multi_similarity


def contrastive(samples):
    """Distances of positives, and what negatives lack to a distance of 1, each averaged over those above zero."""

    def mean_above_zero(values):
        above = [value for value in values if value > 0]
        return sum(above) / max(1, len(above))

    alike = mean_above_zero([math.sqrt(samples.squared(*pair)) for pair in samples.positives])
    return alike + mean_above_zero([1 - math.sqrt(samples.squared(*pair)) for pair in samples.negatives])


def reference(settings, points, dim):
    return class_formula(multi_similarity if settings else contrastive)({}, points, dim)
