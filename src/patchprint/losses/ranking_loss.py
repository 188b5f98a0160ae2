"""One ranking of all matches of a batch: what matching by distance is judged by, as a loss beside another."""

from __future__ import annotations

import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.losses.descriptor_batch import DescriptorBatch
from patchprint.losses.loss import Loss, PairLoss, Pairs, require_at_least
from patchprint.losses.mining import angle, hardest_cosine


class MatchRanking(Loss):
    """``loss + weight * (1 - AP)``: average precision of one list that holds all right and all nearest wrong matches.

    Losses on triplets ask that a point's own view be nearer than other points *of its own list*. Who matches photos ranks the
    matches of all keypoints in one list, by distance, and keypoints without a counterpart stand in it too. So right matches
    (angle between the views of a point) and wrong ones (angle to its hardest negative, found as SDGMNet does) of the whole
    batch are ranked together. A rank counts smooth steps ``sigmoid(difference / temperature)``, as Smooth-AP does; ours
    is one list for a batch instead of one for each query.

    Shape:
        batch.desc (P, 2, D) -> ``total`` and parts, each 0-dim.
    """

    def __init__(self, loss: Loss, weight: float = 1.0, temperature: float = 0.05, guard: float = 0.6) -> None:
        super().__init__()
        if not isinstance(loss, PairLoss):
            raise UserError(f"a ranking of matches needs a loss on pairs beside it, not {type(loss).__name__}")
        self.loss = loss
        self.weight = require_at_least("weight", weight, 0.0)
        self.temperature = require_at_least("temperature", temperature, 1e-3)
        self.cosine_guard = torch.cos(torch.tensor(guard)).item()
        self.take_after(loss)

    def compute(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        parts = self.loss(batch)
        precision = self.average_precision(Pairs.of(batch))
        return parts | {
            "total": parts["total"] + self.weight * (1.0 - precision),
            "ranking_ap": precision.detach(),
        }

    def average_precision(self, pairs: Pairs) -> Tensor:
        """Mean over right matches of the part of right ones among all that are at least as near, smoothly counted.

        Shape:
            pairs.anchor, pairs.positive (P, D) -> 0-dim.
        """
        right = angle((pairs.anchor * pairs.positive).sum(1))
        wrong = angle(hardest_cosine(pairs.anchor, pairs.positive, self.cosine_guard, pairs.ignore, pairs.rows))
        among_right = self._nearer(right, right) + 0.5  # a match is half before itself; with this it counts once
        return (among_right / (among_right + self._nearer(right, wrong))).mean()

    def _nearer(self, angles: Tensor, others: Tensor) -> Tensor:
        """How many of ``others`` are nearer, (N,), (M,) -> (N,)."""
        return torch.sigmoid((angles[:, None] - others) / self.temperature).sum(1)
