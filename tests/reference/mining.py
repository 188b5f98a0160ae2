"""Distances and hardest negatives, one pair after the other. a, p are unit vectors (P, D), anchors and positives."""

import math

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
