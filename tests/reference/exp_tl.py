"""The surrogate of Exp-TL."""

import math

from reference.formula import Formula, units
from reference.mining import distance, hardest_across


def reference(settings, points, dim):
    return Formula(lambda raw: exp_tl(*units(raw), **settings))


def exp_tl(a, p):
    far = hardest_across(a, p)
    return sum(math.exp(distance(a[i], p[i])) + math.exp(2 - far[i]) for i in range(len(a))) / len(a)
