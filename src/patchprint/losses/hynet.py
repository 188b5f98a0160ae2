"""HyNet (Tian et al. 2020): a similarity between cosine and distance, and equal norms of matching descriptors."""

import torch
from torch import Tensor

from patchprint.losses.loss import PairLoss, Pairs, require_at_least, require_choice
from patchprint.losses.mining import L2_GUARD, SMALLEST_L2, hardest_everywhere, l2
from patchprint.losses.sosnet import second_order_similarity

SIMILARITIES = ("hybrid", "inner-product", "distance")


class HyNetLoss(PairLoss):
    """``mean_i max(0, margin + h(d+_i) - h(d-_i)) + norm_weight * mean_i (|x_i| - |x+_i|)^2``.

    ``h(d) = d + alpha d^2 / 2`` is the hybrid similarity without the paper's factor 1/Z: the margin of 1.2 belongs to the
    unnormalized form, as in the released code. ``similarity`` takes one of its parts alone: "inner-product" is
    ``h = 1 - s = d^2 / 2``, "distance" is ``h = d``. Their slope is at most 1 where that of the hybrid is at most Z, 2.74 at
    alpha 2, so a margin of 1.2 / 2.74 = 0.44 is the same one to them. x is the raw descriptor. ``second_order`` adds SOSNet's
    term with that weight. The released code sums over points; all parts are means here.
    """

    smallest_positive = SMALLEST_L2

    def __init__(
        self,
        alpha: float = 2.0,
        margin: float = 1.2,
        norm_weight: float = 0.1,
        second_order: float = 0.0,
        guard: float = L2_GUARD,
        similarity: str = "hybrid",
    ) -> None:
        super().__init__()
        self.similarity = require_choice("similarity", similarity, SIMILARITIES)
        self.alpha = require_at_least("alpha", alpha, 0.0)
        self.margin = require_at_least("margin", margin, 0.0)
        self.norm_weight = require_at_least("norm_weight", norm_weight, 0.0)
        self.second_order = require_at_least("second_order", second_order, 0.0)
        self.guard = require_at_least("guard", guard, 0.0)

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        positive = l2(pairs.anchor, pairs.positive)
        negative = hardest_everywhere(pairs, self.guard)
        metric = torch.relu(self.margin + self._dissimilarity(positive) - self._dissimilarity(negative)).mean()
        norms = torch.linalg.vector_norm(torch.stack([pairs.raw_anchor, pairs.raw_positive]), dim=-1)
        norm = (norms[0] - norms[1]).square().mean()
        total = metric + self.norm_weight * norm
        parts = {"metric": metric, "norm": norm, "positive": positive.mean(), "negative": negative.mean()}
        if self.second_order:
            parts["second_order"] = second_order_similarity(pairs)
            total = total + self.second_order * parts["second_order"]
        return {"total": total, **parts}

    def _dissimilarity(self, distance: Tensor) -> Tensor:
        if self.similarity == "distance":
            return distance
        product = 0.5 * distance.square()
        return product if self.similarity == "inner-product" else distance + self.alpha * product
