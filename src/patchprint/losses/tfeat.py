"""TFeat (Balntas et al. 2016): margin and ratio losses on random triplets, with the anchor swap."""

from typing import Any

import torch
from torch import Tensor

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.losses.hardnet import deranged
from patchprint.losses.loss import PairLoss, Pairs, require_at_least, require_choice
from patchprint.losses.mining import SMALLEST_L2, l2


class TFeatLoss(PairLoss):
    """*margin*: ``mean max(0, margin + d+ - d-)``; *ratio*: ``mean s^2 + (1 - (1 - s))^2`` with
    ``s = e^(d+) / (e^(d+) + e^(d-))``, that is ``2 sigmoid(d+ - d-)^2``.

    The negative of a triplet is the positive view of a random other point (a derangement of the batch); with ``swap`` it is
    compared to both views of the pair and the smaller distance counts. Nothing is mined, so no pairs can be ignored.
    """

    draws_by_position = True
    smallest_positive = SMALLEST_L2

    def __init__(self, form: str = "margin", margin: float = 1.0, swap: bool = True, seed: int = 0) -> None:
        super().__init__()
        self.form = require_choice("form", form, ("margin", "ratio"))
        self.margin = require_at_least("margin", margin, 0.0)
        self.swap = swap
        self.seed = seed

    @classmethod
    def settings_for_run(cls, *, steps: int, batch: int, seed: int) -> dict[str, Any]:
        return {"seed": seed}

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        if pairs.ignore is not None:
            raise UserError("tfeat draws its negatives at random, so batch.ignore must be None")
        other = deranged(pairs.positive, rng.key(self.seed, pairs.step))
        positive, negative = l2(pairs.anchor, pairs.positive), l2(pairs.anchor, other)
        if self.swap:
            negative = torch.minimum(negative, l2(pairs.positive, other))
        if self.form == "margin":
            total = torch.relu(self.margin + positive - negative).mean()
        else:
            total = 2.0 * torch.sigmoid(positive - negative).square().mean()
        return {"total": total, "positive": positive.mean(), "negative": negative.mean()}
