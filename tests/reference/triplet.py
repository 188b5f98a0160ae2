"""All triplets, one after the other."""

from reference.classes import class_formula, mean


def triplet(samples, margin=1.0):
    return mean(
        [
            max(0.0, margin + samples.squared(a, p) - samples.squared(a, n))
            for a, p in samples.positives
            for n in samples.negatives_of(a)
        ]
    )


reference = class_formula(triplet)
