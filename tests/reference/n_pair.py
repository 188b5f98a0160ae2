"""Cross-entropy of first samples among second samples."""

import math

from reference.classes import class_formula, mean

VARIANTS = {"": {}, "64": {"scale": 64.0}}


def n_pair(samples, scale=25.0):
    members = {}
    for i in samples.existing:
        members.setdefault(samples.labels[i], []).append(i)
    pairs = [tuple(ids[:2]) for ids in members.values() if len(ids) >= 2]
    losses = []
    for anchor, own in pairs:
        if (anchor, own) not in samples.positives:
            continue  # ignored
        columns = [own] + [q for _, q in pairs if (anchor, q) in samples.negatives]
        logits = [scale * samples.cosine(anchor, q) for q in columns]
        losses.append(math.log(sum(math.exp(logit - logits[0]) for logit in logits)))
    return mean(losses)


reference = class_formula(n_pair)
