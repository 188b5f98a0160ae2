"""HyNet (Tian et al. 2020): a similarity between cosine and distance, and equal norms of matching descriptors."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from patchprint.losses.base import PairLoss, Pairs, require_at_least
from patchprint.losses.mining import L2_GUARD, SMALLEST_L2, hardest_everywhere, l2
from patchprint.losses.sosnet import second_order_similarity


class HyNetLoss(PairLoss):
    """``mean_i max(0, margin + h(d+_i) - h(d-_i)) + norm_weight * mean_i (|x_i| - |x+_i|)^2``.

    ``h(d) = d + alpha d^2 / 2`` is the hybrid similarity without the paper's factor 1/Z: the margin of 1.2 belongs to the
    un-normalised form, as in the released code. x is the raw descriptor. ``second_order`` adds SOSNet's term with that
    weight. The code sums over points; all parts are means here, which keeps their relation (0.1 goes with the sum).
    """

    smallest_positive = SMALLEST_L2
    variants: ClassVar = {"": {}, "second-order": {"second_order": 0.5}}

    def __init__(
        self,
        alpha: float = 2.0,
        margin: float = 1.2,
        norm_weight: float = 0.1,
        second_order: float = 0.0,
        guard: float = L2_GUARD,
    ) -> None:
        super().__init__()
        self.alpha = require_at_least("alpha", alpha, 0.0)
        self.margin = require_at_least("margin", margin, 0.0)
        self.norm_weight = require_at_least("norm_weight", norm_weight, 0.0)
        self.second_order = require_at_least("second_order", second_order, 0.0)
        self.guard = require_at_least("guard", guard, 0.0)

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        positive = l2(pairs.anchor, pairs.positive)
        negative = hardest_everywhere(pairs.anchor, pairs.positive, self.guard, pairs.ignore)
        metric = torch.relu(self.margin + self._hybrid(positive) - self._hybrid(negative)).mean()
        norms = torch.linalg.vector_norm(torch.stack([pairs.raw_anchor, pairs.raw_positive]), dim=-1)
        norm = (norms[0] - norms[1]).square().mean()
        total = metric + self.norm_weight * norm
        parts = {"metric": metric, "norm": norm, "positive": positive.mean(), "negative": negative.mean()}
        if self.second_order:
            parts["second_order"] = second_order_similarity(pairs.anchor, pairs.positive)
            total = total + self.second_order * parts["second_order"]
        return {"total": total} | {name: part.detach() for name, part in parts.items()}

    def _hybrid(self, distance: Tensor) -> Tensor:
        return distance + 0.5 * self.alpha * distance.square()
