"""Triplet losses on squared distances (Schroff et al. 2015): over all triplets of a batch, and semi-hard ones."""

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
            of_positive = positive * torch.searchsorted(far.sort(dim=1).values, reach)
            of_negative = negative * (reach.shape[1] - torch.searchsorted(reach.sort(dim=1).values, far, right=True))
            active = samples.rows.total(of_positive.sum())
            triplets = samples.rows.total((positive.sum(1) * negative.sum(1)).sum()).clamp_min(1)
        total = samples.rows.total(((of_positive - of_negative) * distance).sum()) + self.margin * active
        return {"total": total / triplets, "active": active / triplets}


class SemiHardTripletLoss(ClassLoss):
    """Mean over ordered positive pairs (a, p) of ``max(0, margin + d_ap - d_an)``, d squared distances.

    n is the nearest negative that is farther than p, or, where there is none, the farthest negative.
    pytorch-metric-learning's miner keeps every semi-hard negative of a pair and drops pairs without one.
    """

    def __init__(self, margin: float = 0.2) -> None:
        super().__init__()
        self.margin = require_at_least("margin", margin, 0.0)

    def compute_samples(self, samples: Samples) -> dict[str, Tensor]:
        distance = squared_l2(samples.anchor, samples.unit)
        negative = samples.negative
        ascending = distance.masked_fill(~negative, torch.inf).sort(dim=1).values
        place = torch.searchsorted(ascending.detach(), distance.detach(), right=True)
        beyond = ascending.gather(1, place.clamp_max(distance.shape[1] - 1))
        farthest = distance.masked_fill(~negative, -torch.inf).max(1, keepdim=True).values
        chosen = torch.where(torch.isfinite(beyond), beyond, farthest)
        counted = samples.positive & negative.any(1, keepdim=True)
        # Entries that do not count are replaced before the subtraction, so that no infinity meets a gradient.
        gap = distance.masked_fill(~counted, 0.0) - chosen.masked_fill(~counted, 0.0)
        hinge = torch.relu(self.margin + gap)
        return {"total": samples.mean_where(hinge, counted), "active": samples.mean_where(hinge > 0, counted)}
