"""Tuplets, and the variance inside positive and inside negative pairs."""

import math

from reference.classes import class_formula, mean


def tuplet_margin(samples, slack=0.1, scale=64.0, variance_weight=0.5, tolerance=0.01):
    tuplets = []
    for a, p in samples.positives:
        eased = math.cos(math.acos(samples.cosine(a, p)) - slack)
        tuplets.append(
            math.log1p(sum(math.exp(scale * (samples.cosine(a, n) - eased)) for n in samples.negatives_of(a)))
        )
    alike, other = ([samples.cosine(*pair) for pair in pairs] for pairs in (samples.positives, samples.negatives))
    low = mean([max(0.0, (1 - tolerance) * mean(alike) - s) ** 2 for s in alike])
    high = mean([max(0.0, s - (1 + tolerance) * mean(other)) ** 2 for s in other])
    return mean(tuplets) + variance_weight * (low + high)


reference = class_formula(tuplet_margin)
