"""TFeat: margin and ratio losses on random triplets."""

import math

from patchprint.common import rng
from patchprint.losses.hardnet import other_points
from reference.formula import STEP, Formula, units
from reference.mining import distance

VARIANTS = {"margin": {}, "ratio": {"form": "ratio", "swap": False}}


def reference(settings, points, dim):
    other = other_points(points, rng.key(0, STEP)).tolist()
    return Formula(lambda raw: tfeat(*units(raw), other, **settings))


def tfeat(a, p, other, form="margin", margin=1.0, swap=True):
    total = 0.0
    for i in range(len(a)):
        near, far = distance(a[i], p[i]), distance(a[i], p[other[i]])
        if swap:
            far = min(far, distance(p[i], p[other[i]]))
        if form == "margin":
            total += max(0.0, margin + near - far)
        else:
            whole = math.exp(near) + math.exp(far)
            total += (math.exp(near) / whole) ** 2 + (1 - math.exp(far) / whole) ** 2
    return total / len(a)
