"""Multi-similarity with its mining, anchor after anchor."""

import math

from reference.classes import class_formula


def multi_similarity(samples, positive_scale=2.0, negative_scale=40.0, threshold=0.5, margin=0.1):
    total = 0.0
    for a in samples.existing:
        alike = [s for s in (samples.cosine(a, p) for p in samples.positives_of(a)) if s < 1 - 1e-5]
        other = [samples.cosine(a, n) for n in samples.negatives_of(a)]
        if not alike or not other:
            continue
        hard_other = [s for s in other if s + margin > min(alike)]
        hard_alike = [s for s in alike if s - margin < max(other)]
        if not hard_other or not hard_alike:
            continue
        pull = sum(math.exp(-positive_scale * (s - threshold)) for s in hard_alike)
        push = sum(math.exp(negative_scale * (s - threshold)) for s in hard_other)
        total += math.log1p(pull) / positive_scale + math.log1p(push) / negative_scale
    return total / len(samples.existing)


reference = class_formula(multi_similarity)
