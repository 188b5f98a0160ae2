"""Scale-aware loss, on unit or raw vectors."""

import math

from reference.formula import Formula, units
from reference.mining import distance, hardest_across

VARIANTS = {"": {}, "raw": {"normalized": False}}


def reference(settings, points, dim):
    formula = dict(settings)
    if formula.pop("normalized", True):
        return Formula(lambda raw: scale_aware(*units(raw), **formula))
    return Formula(lambda raw: scale_aware(raw[:, 0], raw[:, 1], **formula))


def scale_aware(a, p, gamma=0.5, delta=5.0, t_global=1.15):
    def log_sigmoid(z):
        return -math.log1p(math.exp(-z))

    far = hardest_across(a, p)
    total = 0.0
    for i in range(len(a)):
        near = distance(a[i], p[i])
        t = gamma * (near + far[i]) / 2 + (1 - gamma) * t_global
        both = log_sigmoid(2 * delta * (t - near)) + log_sigmoid(2 * delta * (far[i] - t))
        total -= both / (2 * delta) / len(a)
    return total
