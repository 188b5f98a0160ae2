"""A surrogate of Exp-TL: the published formula is not known here, only how its gradients grow."""

from __future__ import annotations

import torch
from torch import Tensor

from patchprint.losses.loss import PairLoss, Pairs, require_at_least
from patchprint.losses.mining import L2_GUARD, SMALLEST_L2, hardest_across, l2


class ExpTLSurrogateLoss(PairLoss):
    """``mean_i e^(d+_i) + e^(2 - d-_i)`` with HardNet's mining.

    **A surrogate, not the published loss**: it shares that the pull on positives grows and the push on negatives falls
    exponentially with distance. The hard-positive mining of the original needs more than two views and is left out.
    """

    smallest_positive = SMALLEST_L2

    def __init__(self, guard: float = L2_GUARD) -> None:
        super().__init__()
        self.guard = require_at_least("guard", guard, 0.0)

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        positive = l2(pairs.anchor, pairs.positive)
        negative = hardest_across(pairs.anchor, pairs.positive, self.guard, ignore=pairs.ignore_across, rows=pairs.rows)
        return {
            "total": (torch.exp(positive) + torch.exp(2.0 - negative)).mean(),
            "positive": positive.mean(),
            "negative": negative.mean(),
        }
