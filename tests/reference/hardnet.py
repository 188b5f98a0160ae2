"""HardNet with all minings, forms and regularizers."""

import math

from patchprint.common import rng
from patchprint.losses.hardnet import FORMS, MINING, other_points
from reference.formula import STEP, Formula, units
from reference.mining import FAR, distance, dot, hardest_across

VARIANTS = {
    **{f"{mining}-{form}": {"mining": mining, "form": form} for mining in MINING for form in FORMS},
    "no-swap": {"swap": False},
    "active-only": {"margin": 0.3, "active_only": True},
    "gor-cpr": {"gor": 1.0, "cpr": 0.5},
}


def reference(settings, points, dim):
    key = rng.key(0, STEP)
    drawn = {
        "other": other_points(points, rng.fold_in(key, 1)).tolist(),
        "gor_other": other_points(points, rng.fold_in(key, 2)).tolist(),
    }
    return Formula(lambda raw: hardnet(*units(raw), **drawn, **settings))


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
