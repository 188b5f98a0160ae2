"""DOAP (He, Lu and Sclaroff 2018): average precision itself as the objective, through soft histograms.

Every patch is a query that ranks all other patches of the batch. Distances are counted into b + 1 bins, an item being
shared linearly between its two nearest bins; the counts give the tie-aware average precision in relaxed form,

    ``AP = 1/N+ sum_k h+_k (H+_{k-1} + H+_k + 1) / (H_{k-1} + H_k + 1)``.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from patchprint.common.errors import UserError
from patchprint.losses.classes import Samples
from patchprint.losses.loss import DescriptorBatch, Loss, require_at_least
from patchprint.losses.mining import root, squared_l2

_ONE = 2**30


class DOAPLoss(Loss):
    """``1 - mean AP`` over queries that have a positive, zero when none has; groups may have any size.

    Descriptors are real-valued: L2 distance in [0, 2], bins centered at ``2 k / bins``.
    """

    takes_labels = True

    def __init__(self, bins: int | None = 25) -> None:
        super().__init__()
        self.bins = None if bins is None else int(require_at_least("bins", bins, 1))

    def compute(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        samples, bins = Samples.of(batch), self.bins or batch.raw.shape[-1]
        pairs = len(samples.unit) * (len(samples.unit) - 1) // 2
        if bins > pairs:
            raise UserError(f"bins must not exceed the {pairs} pairs of the batch, got {bins}")
        distance, largest = self.distances(batch, samples)
        position = (distance * (bins / largest)).clamp_max(bins)
        position = position.masked_fill(~(samples.positive | samples.negative), bins + 1.0)  # where nothing is counted
        own = relaxed_average_precision(*CumulativeCounts.apply(position, samples.positive, bins))
        is_query = samples.positive.any(1).to(own)
        precision, is_query = samples.rows.gathered(torch.stack([own, is_query], 1)).unbind(1)
        total = ((1.0 - precision) * is_query).sum() / is_query.sum().clamp_min(1.0)
        return {"total": total, "queries": is_query.sum()}

    def distances(self, batch: DescriptorBatch, samples: Samples) -> tuple[Tensor, float]:
        """Distances (R, M) from the rows that this process computes to all M = P * K patches, and the largest possible."""
        return root(squared_l2(samples.anchor, samples.unit)), 2.0


class BinaryDOAPLoss(DOAPLoss):
    """DOAP of binary descriptors: ``F = tanh(raw)``, Hamming distance ``(D - F.F') / 2``, bins 0..D.

    The bits at test time are the signs of ``raw``. ``bins`` below the number of bits makes wider bins.
    """

    binary = True

    def __init__(self, bins: int | None = None) -> None:
        super().__init__(bins)

    def distances(self, batch: DescriptorBatch, samples: Samples) -> tuple[Tensor, float]:
        soft = batch.rows.shared(torch.tanh(batch.raw).flatten(0, 1))
        bits = soft.shape[-1]
        return bits - batch.rows.own(soft) @ soft.T, 2.0 * bits


def relaxed_average_precision(positives: Tensor, everyone: Tensor) -> Tensor:
    """Relaxed average precision of each query (M,) from soft counts in bins 0..k (M, b + 1), 0 without positives."""
    positives_before, everyone_before = (pad(counts[:, :-1], (1, 0)) for counts in (positives, everyone))
    ratio = (positives_before + positives + 1.0) / (everyone_before + everyone + 1.0)
    return ((positives - positives_before) * ratio).sum(1) / positives[:, -1].clamp_min(1.0)


class CumulativeCounts(torch.autograd.Function):
    """Soft counts of positive items and of all items in bins 0..k, for k = 0..bins, in time and memory O(M^2).

    Forward, each item adds its two shares to two entries of an (M, b + 1) table, one for positives and one for negatives. The
    shares are whole numbers of 2^-30, so that the order of additions does not matter. Backward, the part of an item in bins
    0..k is the ramp ``clamp(k + 1 - x, 0, 1)`` of its position x: slope -1 at ``k = floor(x)``, zero elsewhere, one gather.

    Shape:
        position (M, N) in units of a bin, 0 <= position <= bins, or bins + 1 for an item that does not count;
        positive (M, N) bool; bins int -> (M, bins + 1), (M, bins + 1).
    """

    @staticmethod
    def forward(ctx: Any, position: Tensor, positive: Tensor, bins: int) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(position, positive)
        ctx.bins = bins
        low = _bin_below(position, bins)
        upper_share = ((position - low) * _ONE).round().long()
        # Negatives in the first half of a row, positives in the second.
        place = low + positive * (bins + 3)
        table = torch.zeros(len(position), 2 * (bins + 3), dtype=torch.int64, device=position.device)
        table = table.scatter_add(1, place, _ONE - upper_share).scatter_add(1, place + 1, upper_share)
        negatives, positives = table.view(-1, 2, bins + 3)[..., : bins + 1].cumsum(2).unbind(1)
        # An item that is not a number must not vanish in whole numbers.
        poison = (0.0 * position).sum(1, keepdim=True)
        everyone = positives + negatives
        return positives.to(position.dtype) / _ONE + poison, everyone.to(position.dtype) / _ONE + poison

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        position, positive = ctx.saved_tensors
        of_positives, of_everyone = gradients
        # The last count holds all items whatever their position, and items outside have none: slope zero for both.
        slopes = [-pad(each[:, :-1], (0, 3)) for each in (of_everyone, of_everyone + of_positives)]
        place = _bin_below(position, ctx.bins) + positive * (ctx.bins + 3)
        return torch.cat(slopes, 1).gather(1, place), None, None


def _bin_below(position: Tensor, bins: int) -> Tensor:
    """Number of the bin at or below each item, ``bins + 1`` outside; the clamp keeps even NaN a valid index."""
    return position.floor().long().clamp_(0, bins + 1)
