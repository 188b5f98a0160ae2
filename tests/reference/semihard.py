"""Each positive pair with the next negative beyond it, else with the farthest."""

from reference.classes import class_formula, mean


def semihard(samples, margin=0.2):
    losses = []
    for a, p in samples.positives:
        near, far = samples.squared(a, p), [samples.squared(a, n) for n in samples.negatives_of(a)]
        beyond = [d for d in far if d > near]
        if far:
            losses.append(max(0.0, margin + near - (min(beyond) if beyond else max(far))))
    return mean(losses)


reference = class_formula(semihard)
