"""Slow average precision with ties, from the formulas: exact, relaxed, and as a loss on a batch of groups."""

import math
from fractions import Fraction


def exact_average_precision(positives, negatives):
    """Mean over all orders of tied items; whole counts per bin."""
    total, before, positives_before = Fraction(0), 0, 0
    for plus, minus in zip(positives, negatives, strict=True):
        size = plus + minus
        for t in range(1, size + 1):
            growth = Fraction((t - 1) * (plus - 1), size - 1) if size > 1 else 0
            total += Fraction(plus, size) * (positives_before + 1 + growth) / (before + t)
        before, positives_before = before + size, positives_before + plus
    return float(total / positives_before)


def relaxed_average_precision(positives, negatives):
    total, before, positives_before = 0.0, 0.0, 0.0
    for plus, minus in zip(positives, negatives, strict=True):
        after, positives_after = before + plus + minus, positives_before + plus
        total += plus * (positives_before + positives_after + 1) / (before + after + 1)
        before, positives_before = after, positives_after
    return total / positives_before


def soft_histogram(values, bins, width):
    return [sum(max(0.0, 1 - abs(v - k * width) / width) for v in values) for k in range(bins + 1)]


def doap(groups, bins, width, distance, valid=None, ignore=None):
    """1 - mean AP over the patches that have a positive. ``groups`` (P, K, D); ``valid`` (P, K); ``ignore`` (PK, PK)."""
    patches = [(g, v) for g in range(len(groups)) for v in range(len(groups[g]))]
    scores = []
    for q, (group, view) in enumerate(patches):
        plus, minus = [], []
        for r, (other_group, other_view) in enumerate(patches):
            exists = valid is None or (valid[group][view] and valid[other_group][other_view])
            if q == r or not exists or (ignore is not None and ignore[q][r]):
                continue
            value = min(distance(groups[group][view], groups[other_group][other_view]), bins * width)
            (plus if group == other_group else minus).append(value)
        if plus:
            scores.append(
                relaxed_average_precision(soft_histogram(plus, bins, width), soft_histogram(minus, bins, width))
            )
    return 1 - sum(scores) / len(scores) if scores else 0.0


def soft_hamming(u, v):
    return (len(u) - sum(math.tanh(s) * math.tanh(t) for s, t in zip(u, v, strict=True))) / 2
