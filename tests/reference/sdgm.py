"""SDGMNet's pseudo loss with its running statistics."""

import math
from statistics import NormalDist

import numpy as np

from patchprint.losses.sdgm import SELF_WEIGHTS
from reference.formula import units
from reference.mining import dot

VARIANTS = {
    "": {},
    **{weight: {"self_weight": weight} for weight in SELF_WEIGHTS[1:]},
    "step": {"coupled": "step"},
    "self-weight-only": {"coupled": "none"},
    "soft": {"margin": 0.0},
    "no-power": {"power_adjustment": False},
}


def reference(settings, points, dim):
    return SDGM(**settings)


class SDGM:
    """``step`` updates statistics and powers and fixes the weights; ``value`` is the pseudo loss with these."""

    def __init__(
        self,
        alpha=0.9,
        margin=0.6,
        self_weight="auto-focus",
        coupled="cdf",
        power_adjustment=True,
        rate=0.001,
        initial_power=10_000 / 1024,
        warmup=0.1,
        guard=0.6,
    ):
        self.alpha, self.margin, self.self_weight, self.coupled = alpha, margin, self_weight, coupled
        self.power_adjustment, self.rate, self.initial_power = power_adjustment, rate, initial_power
        self.warmup, self.guard = warmup, guard
        self.moments = None

    def angles(self, raw):
        a, p = units(raw)
        limit = 1 - 1e-5
        threshold = limit if self.progress < self.warmup else math.cos(self.guard)
        positive, negative = [], []
        for i in range(len(a)):
            positive.append(math.acos(min(max(dot(a[i], p[i]), -limit), limit)))
            best = -1.0
            for j in range(len(a)):
                if i == j:
                    continue
                closest = max(dot(a[i], p[j]), dot(a[j], p[i]), dot(a[i], a[j]), dot(p[i], p[j]))
                if closest < threshold:
                    best = max(best, closest)
            negative.append(math.acos(min(max(best, -limit), limit)))
        return positive, negative

    def weight(self, theta, moments):
        mean, std = moments
        if self.self_weight == "auto-focus":
            return math.exp(-((theta - mean) ** 2) / (2 * (math.pi / 6 + std) ** 2))
        if self.self_weight == "s":
            return math.sqrt(1 - math.cos(theta) ** 2)
        if self.self_weight == "l2":
            length = math.sqrt(2 - 2 * math.cos(theta))
            return math.sqrt(4 * length**2 - length**4) / (2 * length)
        return 1.0

    def step(self, raw, progress):
        self.progress = progress
        positive, negative = self.angles(raw)
        relative = [s - t for s, t in zip(positive, negative, strict=True)]
        batch = [(np.mean(v), np.std(v, ddof=1)) for v in (positive, negative, relative)]
        if self.moments is None:
            self.moments = batch
            self.powers = [self.initial_power * len(raw)] * 2
        else:
            self.moments = [
                tuple((1 - self.rate) * old + self.rate * new for old, new in zip(*pair, strict=True))
                for pair in zip(self.moments, batch, strict=True)
            ]
        normal = NormalDist(*self.moments[2])
        self.weights = []
        for s, t, r in zip(positive, negative, relative, strict=True):
            kept = self.margin == 0 or r > normal.inv_cdf(self.margin)
            coupled = {"cdf": normal.cdf(r) * kept, "step": float(kept), "none": 1.0}[self.coupled]
            pair = (coupled * self.weight(s, self.moments[0]), coupled * self.weight(t, self.moments[1]))
            self.weights.append((1.0, 1.0) if progress < self.warmup else pair)
        for k in (0, 1):
            power = sum(w[k] for w in self.weights)
            self.powers[k] = (1 - self.rate) * self.powers[k] + self.rate * power

    def value(self, raw):
        positive, negative = self.angles(raw)
        plus = sum(w[0] * t for w, t in zip(self.weights, positive, strict=True))
        minus = sum(w[1] * t for w, t in zip(self.weights, negative, strict=True))
        if self.power_adjustment:
            return self.alpha * plus / self.powers[0] - minus / self.powers[1]
        return (plus - minus) / len(raw)
