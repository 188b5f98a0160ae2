"""L2-Net's three terms."""

import math

from reference.formula import Formula, units
from reference.mining import distance, dot

VARIANTS = {"": {}, "e1-e2": {"e3": False}, "within": {"within": True}}


def reference(settings, points, dim):
    def value(raw):
        x, y = raw[:, 0], raw[:, 1]
        maps = [(0.3 * x, 0.3 * y), (x, y)]  # those of loss_batches.batch_of
        return l2net(*units(raw), x, y, maps, **settings)

    return Formula(value)


def relative_entropy(logits):
    count = len(logits)
    total = 0.0
    for i in range(count):
        row = math.log(sum(math.exp(logits[i][j] - logits[i][i]) for j in range(count)))
        column = math.log(sum(math.exp(logits[j][i] - logits[i][i]) for j in range(count)))
        total += 0.5 * (row + column)
    return total / count


def l2net(a, p, x, y, maps, e1=True, e2=True, e3=True, within=False):
    count, dim = len(a), len(x[0])
    total = 0.0
    if e1 and within:
        both = [*a, *p]
        for i in range(2 * count):
            match = (i + count) % (2 * count)
            others = sum(math.exp(-distance(both[i], both[j])) for j in range(2 * count) if j != i)
            total += (math.log(others) + distance(both[i], both[match])) / (2 * count)
    elif e1:
        total += relative_entropy([[2 - distance(u, v) for v in p] for u in a])
    if e2:
        for half in (x, y):
            for k in range(dim):
                for m in range(dim):
                    if k != m:
                        total += 0.5 * (sum(v[k] * v[m] for v in half) / count) ** 2 / count
    if e3:
        for first, second in maps:
            total += relative_entropy([[dot(u, v) for v in second] for u in first])
    return total
