"""Semi-hard triplets (Schroff et al. 2015), with the rule for pairs without a semi-hard negative that is in common use.

pytorch-metric-learning's miner keeps every semi-hard negative of a pair and drops pairs without one; the published method
takes the nearest of them, and the farthest negative where there is none.
"""

from __future__ import annotations

import torch
from torch import Tensor

from patchprint.losses.classes import ClassLoss, Samples
from patchprint.losses.loss import require_at_least
from patchprint.losses.mining import squared_l2


class SemiHardTripletLoss(ClassLoss):
    """Mean over ordered positive pairs (a, p) of ``max(0, margin + d_ap - d_an)``, d squared distances.

    n is the nearest negative that is farther than p, or, where there is none, the farthest negative.
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
