"""SOSNet: quadratic triplets and similarity of second order."""

import math

from reference.formula import Formula, units
from reference.mining import distance, hardest_everywhere

VARIANTS = {"": {"neighbors": 2}}


def reference(settings, points, dim):
    return Formula(lambda raw: sosnet(*units(raw), **settings))


def second_order(a, p, neighbors=8):
    count = len(a)
    chosen = [set() for _ in range(count)]
    for left, right in ((a, a), (p, p), (a, p), (p, a)):
        for i in range(count):
            others = sorted((distance(left[i], right[j]), j) for j in range(count) if j != i)
            for _, j in others[:neighbors]:
                chosen[i].add(j)
                chosen[j].add(i)
    total = 0.0
    for i in range(count):
        total += math.sqrt(sum((distance(a[i], a[j]) - distance(p[i], p[j])) ** 2 for j in chosen[i]) + 1e-6)
    return total / count


def sosnet(a, p, margin=1.0, weight=1.0, neighbors=8):
    far = hardest_everywhere(a, p)
    first = sum(max(0.0, margin + distance(a[i], p[i]) - far[i]) ** 2 for i in range(len(a))) / len(a)
    return first + weight * second_order(a, p, neighbors)
