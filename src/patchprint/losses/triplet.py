"""The triplet loss over all triplets of a batch (Schroff et al. 2015 without mining), on squared distances."""

from __future__ import annotations

import torch
from torch import Tensor

from patchprint.losses.classes import ClassLoss, Samples
from patchprint.losses.loss import require_at_least
from patchprint.losses.mining import squared_l2


class TripletLoss(ClassLoss):
    """Mean over all triplets of ``max(0, margin + d_ap - d_an)``, d squared distances; triplets at zero count too.

    There are N^3 of them, but the sum is linear between its kinks: each distance enters as often as it stands in a triplet
    above zero. Sorting counts that, in tables of N^2.
    """

    def __init__(self, margin: float = 1.0) -> None:
        super().__init__()
        self.margin = require_at_least("margin", margin, 0.0)

    def compute_samples(self, samples: Samples) -> dict[str, Tensor]:
        distance = squared_l2(samples.anchor, samples.unit)
        positive, negative = samples.positive, samples.negative
        with torch.no_grad():
            # Both counts compare these same numbers, so that they agree on every triplet.
            reach = (distance + self.margin).masked_fill(~positive, -torch.inf)
            far = distance.masked_fill(~negative, torch.inf)
            of_positive = positive * _how_many_below(far, reach)
            of_negative = negative * (reach.shape[1] - _how_many_below(reach, far, or_equal=True))
            active = samples.rows.total(of_positive.sum())
            triplets = samples.rows.total((positive.sum(1) * negative.sum(1)).sum()).clamp_min(1)
        total = samples.rows.total(((of_positive - of_negative) * distance).sum()) + self.margin * active
        return {"total": total / triplets, "active": active / triplets}


def _how_many_below(row: Tensor, value: Tensor, or_equal: bool = False) -> Tensor:
    """How many entries of a row are smaller than each value of that row, or at most as large.

    Shape:
        row (R, N), value (R, N) -> (R, N) int64.
    """
    return torch.searchsorted(row.sort(dim=1).values, value, right=or_equal)
