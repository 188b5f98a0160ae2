"""Tuplet margin with the intra-pair variance (Yu and Tao 2019).

pytorch-metric-learning's takes the slope of acos at cosine 1, which is infinite for one image twice in a batch, and holds all
positive against all negative pairs.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from patchprint.losses.classes import ClassLoss, Samples, log_sum_where
from patchprint.losses.loss import require_at_least
from patchprint.losses.mining import angle


class TupletMarginLoss(ClassLoss):
    """Mean over ordered positive pairs of ``log(1 + sum_n e^(scale (cos t_n - cos(t_p - slack))))`` plus the intra-pair
    variance ``variance_weight * [mean relu((1 - e) mean(s_p) - s_p)^2 + mean relu(s_n - (1 + e) mean(s_n))^2]``.

    ``slack`` is in radians; e is ``tolerance``; s_p and s_n are the cosines of positive and negative pairs. The variance is
    learned from a batch without positives, or without negatives, too.
    """

    def __init__(
        self, slack: float = 0.1, scale: float = 64.0, variance_weight: float = 0.5, tolerance: float = 0.01
    ) -> None:
        super().__init__()
        self.slack = require_at_least("slack", slack, 0.0)
        self.scale = require_at_least("scale", scale, 0.0)
        self.variance_weight = require_at_least("variance_weight", variance_weight, 0.0)
        self.tolerance = require_at_least("tolerance", tolerance, 0.0)

    def compute_samples(self, samples: Samples) -> dict[str, Tensor]:
        cosine, rows = samples.cosine(), samples.rows
        positive, negative = samples.positive, samples.negative
        eased = torch.cos(angle(cosine) - self.slack)
        terms = softplus(log_sum_where(self.scale * cosine, negative) - self.scale * eased)
        tuplets = samples.mean_where(terms, positive)
        of_positives, of_negatives = (rows.shared(samples.mean_where(cosine, mask)) for mask in (positive, negative))
        low = torch.relu((1.0 - self.tolerance) * of_positives - cosine).square()
        high = torch.relu(cosine - (1.0 + self.tolerance) * of_negatives).square()
        variance = samples.mean_where(low, positive) + samples.mean_where(high, negative)
        return {"total": tuplets + self.variance_weight * variance, "metric": tuplets, "variance": variance}
