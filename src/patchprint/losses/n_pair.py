"""Normalized n-pair (Sohn 2016, on unit vectors with a scale)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.nn.functional import softplus

from patchprint.losses.classes import ClassLoss, Samples, log_sum_where
from patchprint.losses.loss import require_at_least


class NPairLoss(ClassLoss):
    """Mean over classes of the cross-entropy of their first sample among the second samples of all classes, logits
    ``scale * cos``. Classes with one sample, and third samples, do not count.

    The published scales are 25 (vectors of length 5) and 64.
    """

    ordered_views = True
    variants: ClassVar = {"": {}, "64": {"scale": 64.0}}

    def __init__(self, scale: float = 25.0) -> None:
        super().__init__()
        self.scale = require_at_least("scale", scale, 0.0)

    def compute_samples(self, samples: Samples) -> dict[str, Tensor]:
        logits = self.scale * samples.cosine()
        rows = samples.rows
        number = samples.same.tril(rows.first(len(samples.unit)) - 1).sum(1)  # samples of the class that come before
        second = (rows.gathered(number) == 1)[None]
        own = samples.positive & (number == 0)[:, None] & second
        others = log_sum_where(logits, samples.negative & second)
        return {"total": samples.mean_where(softplus(others - logits), own)}
