"""Each view tells its partner from all other views."""

import math

from reference.classes import class_formula, mean


def nt_xent(samples, temperature=0.5):
    losses = []
    for i, j in samples.positives:
        own = math.exp(samples.cosine(i, j) / temperature)
        rest = sum(math.exp(samples.cosine(i, k) / temperature) for k in samples.negatives_of(i))
        losses.append(-math.log(own / (own + rest)))
    return mean(losses)


reference = class_formula(nt_xent)
