"""Multi-similarity (Wang et al. 2019), with its own mining."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from patchprint.losses.classes import ClassLoss, Samples, log_sum_where
from patchprint.losses.loss import require_at_least

_SAME_IMAGE = 1.0 - 1e-5  # the published code drops positives above it


class MultiSimilarityLoss(ClassLoss):
    """Mean over samples of ``log(1 + sum_p e^(-a (s_p - t))) / a + log(1 + sum_n e^(b (s_n - t))) / b``, s cosines, a and b
    the two scales, t ``threshold``.

    A negative counts where ``s_n + margin > min s_p``, a positive where ``s_p - margin < max s_n``; a sample without such
    pairs counts as 0. A positive that is the very same image does not count.
    """

    def __init__(
        self, positive_scale: float = 2.0, negative_scale: float = 40.0, threshold: float = 0.5, margin: float = 0.1
    ) -> None:
        super().__init__()
        self.positive_scale = require_at_least("positive_scale", positive_scale, 1e-3)
        self.negative_scale = require_at_least("negative_scale", negative_scale, 1e-3)
        self.threshold = threshold
        self.margin = require_at_least("margin", margin, 0.0)

    def compute_samples(self, samples: Samples) -> dict[str, Tensor]:
        cosine, rows = samples.cosine(), samples.rows
        # Comparisons are written so that what is not a number is kept, and shows in the total.
        negative, positive = samples.negative, samples.positive & ~(cosine >= _SAME_IMAGE)
        least_alike = cosine.masked_fill(~positive, torch.inf).min(1, keepdim=True).values
        most_alike = cosine.masked_fill(~negative, -torch.inf).max(1, keepdim=True).values
        negative = negative & ~(cosine + self.margin <= least_alike)
        positive = positive & ~(cosine - self.margin >= most_alike)
        excess = cosine - self.threshold
        pull = softplus(log_sum_where(-self.positive_scale * excess, positive)) / self.positive_scale
        push = softplus(log_sum_where(self.negative_scale * excess, negative)) / self.negative_scale
        count = samples.exists.sum().clamp_min(1)
        active = rows.total(positive.any(1).sum())
        return {"total": rows.total((pull + push).sum()) / count, "active": active / count}
