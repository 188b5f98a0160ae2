"""Slow NumPy versions of the pair losses, in float64 and loops, written from the formulas of the fact sheet.

Arguments named a, p are lists of unit vectors (P, D), anchors and positives; x, y are the raw ones. Every function returns
the mean over points where the papers' code sums, as the losses do.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

FAR = math.sqrt(10.0**2 + 1e-6)  # distance of a negative when every candidate is skipped


def distance(u, v):
    return math.sqrt(sum((s - t) ** 2 for s, t in zip(u, v, strict=True)) + 1e-6)


def dot(u, v):
    return sum(s * t for s, t in zip(u, v, strict=True))


def norm(u):
    return math.sqrt(dot(u, u))


def hardest_across(a, p, guard=0.008, swap=True):
    result = []
    for i in range(len(a)):
        candidates = [FAR]
        for j in range(len(a)):
            if i == j:
                continue
            candidates.append(distance(a[i], p[j]))
            if swap:
                candidates.append(distance(a[j], p[i]))
        result.append(min(d for d in candidates if d >= guard))
    return result


def hardest_everywhere(a, p, guard=0.008):
    result = []
    for i in range(len(a)):
        candidates = [FAR]
        for j in range(len(a)):
            if i == j:
                continue
            four = (distance(a[i], p[j]), distance(a[j], p[i]), distance(a[i], a[j]), distance(p[i], p[j]))
            candidates.extend(d for d in four if d > guard)
        result.append(min(candidates))
    return result


def penalty(form, margin, near, far):
    if form == "softmax":
        return -math.log(math.exp(2 - near) / (math.exp(2 - near) + math.exp(2 - far)))
    if form == "contrastive":
        return max(0.0, margin - far) + near
    return max(0.0, margin + near - far)


def hardnet(
    a,
    p,
    margin=1.0,
    mining="hardest",
    form="triplet",
    swap=True,
    guard=0.008,
    active_only=False,
    other=None,
    gor=0.0,
    cpr=0.0,
    gor_other=None,
):
    """``other[i]`` is the random point of i; ``gor_other`` the one of GOR."""
    count = len(a)
    near = [distance(a[i], p[i]) for i in range(count)]

    def negative(i, j):
        candidates = [distance(a[i], p[j])] + ([distance(a[j], p[i])] if swap else [])
        return min([d for d in candidates if d >= guard] + [FAR])

    if mining == "hardest":
        far = hardest_across(a, p, guard, swap)
        penalties = [penalty(form, margin, near[i], far[i]) for i in range(count)]
        active = sum(value > 0 for value in penalties)
        total = sum(penalties) / (max(active, 1) if active_only else count)
    elif mining == "random":
        total = sum(penalty(form, margin, near[i], negative(i, other[i])) for i in range(count)) / count
    else:
        total = 0.0
        for i in range(count):
            for j in range(count):
                if i != j:
                    total += penalty(form, margin, near[i], negative(i, j)) / (count * (count - 1))
    if gor:
        cosines = [dot(a[i], p[gor_other[i]]) for i in range(count)]
        second_moment = sum(c * c for c in cosines) / count
        total += gor * ((sum(cosines) / count) ** 2 + max(0.0, second_moment - 1.0 / len(a[0])))
    if cpr:
        dim = len(a[0])
        means = [sum(v[k] for v in a) / count for k in range(dim)]
        off = 0.0
        for k in range(dim):
            for m in range(dim):
                if k != m:
                    off += sum((v[k] - means[k]) * (v[m] - means[m]) for v in a) ** 2
        total += cpr * math.sqrt(off) / count
    return total


def relative_entropy(logits):
    count = len(logits)
    total = 0.0
    for i in range(count):
        row = math.log(sum(math.exp(logits[i][j] - logits[i][i]) for j in range(count)))
        column = math.log(sum(math.exp(logits[j][i] - logits[i][i]) for j in range(count)))
        total += 0.5 * (row + column)
    return total / count


def l2net(a, p, x, y, maps, e1=True, e2=True, e3=True):
    count, dim = len(a), len(x[0])
    total = 0.0
    if e1:
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


def hynet(a, p, x, y, alpha=2.0, margin=1.2, norm_weight=0.1, second_order_weight=0.0):
    def hybrid(d):
        return d + alpha * d * d / 2

    far = hardest_everywhere(a, p)
    total = 0.0
    for i in range(len(a)):
        total += max(0.0, margin + hybrid(distance(a[i], p[i])) - hybrid(far[i])) / len(a)
        total += norm_weight * (norm(x[i]) - norm(y[i])) ** 2 / len(a)
    return total + (second_order_weight * second_order(a, p) if second_order_weight else 0.0)


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


def exp_tl(a, p):
    far = hardest_across(a, p)
    return sum(math.exp(distance(a[i], p[i])) + math.exp(2 - far[i]) for i in range(len(a))) / len(a)


class CDF:
    """``step`` updates the histogram and fixes the weights; ``value`` is the loss with these weights."""

    def __init__(self, bins, rate=0.01, guard=0.008):
        self.bins, self.rate, self.guard = bins, rate, guard
        self.histogram = None

    def distances(self, a, p, x, y):
        return [distance(u, v) for u, v in zip(a, p, strict=True)], hardest_across(a, p, self.guard)

    def hardness(self, a, p, x, y):
        near, far = self.distances(a, p, x, y)
        return [n - f for n, f in zip(near, far, strict=True)]

    def step(self, a, p, x, y):
        batch = [0.0] * self.bins
        width = 4.0 / (self.bins - 1)
        floors = []
        hardness = self.hardness(a, p, x, y)
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

    def value(self, a, p, x, y):
        near, far = self.distances(a, p, x, y)
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

    def distances(self, a, p, x, y):
        rows = self.mined(x, y)
        return [r[0] for r in rows], [r[1] for r in rows]

    def hardness(self, a, p, x, y):
        return [r[2] for r in self.mined(x, y)]


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

    def angles(self, a, p):
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

    def step(self, a, p, progress):
        self.progress = progress
        positive, negative = self.angles(a, p)
        relative = [s - t for s, t in zip(positive, negative, strict=True)]
        batch = [(np.mean(v), np.std(v, ddof=1)) for v in (positive, negative, relative)]
        if self.moments is None:
            self.moments = batch
            self.powers = [self.initial_power * len(a)] * 2
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

    def value(self, a, p):
        positive, negative = self.angles(a, p)
        plus = sum(w[0] * t for w, t in zip(self.weights, positive, strict=True))
        minus = sum(w[1] * t for w, t in zip(self.weights, negative, strict=True))
        if self.power_adjustment:
            return self.alpha * plus / self.powers[0] - minus / self.powers[1]
        return (plus - minus) / len(a)
