"""HyNet: hybrid similarity, equal norms, and SOSNet's term where it is switched on."""

from reference.formula import Formula, units
from reference.mining import distance, hardest_everywhere, norm
from reference.sosnet import second_order as second_order_similarity

VARIANTS = {
    "": {},
    "second-order": {"second_order": 0.5},
    "inner-product": {"similarity": "inner-product", "margin": 0.44},
    "distance": {"similarity": "distance", "margin": 0.44},
}


def reference(settings, points, dim):
    return Formula(lambda raw: hynet(*units(raw), raw[:, 0], raw[:, 1], **settings))


def hynet(a, p, x, y, alpha=2.0, margin=1.2, norm_weight=0.1, second_order=0.0, similarity="hybrid"):
    def far_apart(d):
        inner_product = 1 - d * d / 2
        parts = {"distance": d, "inner-product": 1 - inner_product}
        return parts[similarity] if similarity in parts else d + alpha * (1 - inner_product)

    far = hardest_everywhere(a, p)
    total = 0.0
    for i in range(len(a)):
        total += max(0.0, margin + far_apart(distance(a[i], p[i])) - far_apart(far[i])) / len(a)
        total += norm_weight * (norm(x[i]) - norm(y[i])) ** 2 / len(a)
    return total + (second_order * second_order_similarity(a, p) if second_order else 0.0)
