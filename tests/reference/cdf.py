"""CDF soft margin, on unit vectors and on bits."""

import math

from reference.formula import units
from reference.mining import distance, hardest_across

VARIANTS = {"": {"bins": 6}, "binary": {"bins": 6, "binary": True}}


def reference(settings, points, dim):
    formula = dict(settings)
    kind = BinaryCDF if formula.pop("binary", False) else CDF
    return kind(**formula)


class CDF:
    """``step`` updates the histogram and fixes the weights; ``value`` is the loss with these weights."""

    def __init__(self, bins, rate=0.01, guard=0.008):
        self.bins, self.rate, self.guard = bins, rate, guard
        self.histogram = None

    def distances(self, raw):
        a, p = units(raw)
        return [distance(u, v) for u, v in zip(a, p, strict=True)], hardest_across(a, p, self.guard)

    def hardness(self, raw):
        near, far = self.distances(raw)
        return [n - f for n, f in zip(near, far, strict=True)]

    def step(self, raw, progress):
        batch = [0.0] * self.bins
        width = 4.0 / (self.bins - 1)
        floors = []
        hardness = self.hardness(raw)
        for h in hardness:
            position = min(max((h + 2) / width, 0.0), self.bins - 1.0)
            low = math.floor(position)
            floors.append(low)
            batch[low] += (1 - (position - low)) / len(hardness)
            if low + 1 < self.bins:
                batch[low + 1] += (position - low) / len(hardness)
        if self.histogram is None:
            self.histogram = batch
        else:
            self.histogram = [(1 - self.rate) * h + self.rate * b for h, b in zip(self.histogram, batch, strict=True)]
        self.weights = [sum(self.histogram[: low + 1]) for low in floors]

    def value(self, raw):
        near, far = self.distances(raw)
        return sum(w * (n - f) for w, n, f in zip(self.weights, near, far, strict=True)) / len(near)


class BinaryCDF(CDF):
    """Mining and histogram on sign bits, distances of tanh; of equally distant bits the nearer tanh is mined."""

    def __init__(self, bins, rate=0.01, guard_bits=2):
        super().__init__(bins, rate)
        self.guard_bits = guard_bits

    def mined(self, x, y):
        def soft(u, v):
            return sum(1 - math.tanh(s) * math.tanh(t) for s, t in zip(u, v, strict=True)) / len(u)

        def bits(u, v):
            return sum((s > 0) != (t > 0) for s, t in zip(u, v, strict=True))

        count, dim = len(x), len(x[0])
        rows = []
        for i in range(count):
            candidates = []
            for j in range(count):
                if i == j:
                    continue
                for u, v in ((x[i], y[j]), (x[j], y[i])):
                    if bits(u, v) >= self.guard_bits:
                        candidates.append((bits(u, v), soft(u, v)))
            far_bits, far = min(candidates)
            rows.append((soft(x[i], y[i]), far, 2 * (bits(x[i], y[i]) - far_bits) / dim))
        return rows

    def distances(self, raw):
        rows = self.mined(raw[:, 0], raw[:, 1])
        return [r[0] for r in rows], [r[1] for r in rows]

    def hardness(self, raw):
        return [r[2] for r in self.mined(raw[:, 0], raw[:, 1])]
