"""CDF soft margin (Zhang and Rusinkiewicz 2019): triplets weighted by how hard they are among recent ones."""

from typing import Any

import torch
from torch import Tensor

from patchprint.common.distributed import Rows
from patchprint.common.errors import UserError
from patchprint.losses.loss import PairLoss, Pairs, require_at_least, require_rate
from patchprint.losses.mining import L2_GUARD, NOTHING_LEFT, SMALLEST_L2, both_ways, hardest_across, l2, same_point


class CDFLoss(PairLoss):
    """``mean_i w_i (d+_i - d-_i)``, where w_i is the share of recent triplets that are at most as hard (detached).

    The distribution of ``d+ - d-`` over [-2, 2] is a histogram with ``bins`` nodes, filled by linear interpolation and
    averaged over batches (``rate`` 0.01; the first batch counts fully). The published setting is bins = P / 2 = 512.
    Mining is HardNet's. With ``binary`` the distance is ``mean(1 - ab)`` over the dimensions: negatives are mined and
    weights are read with the bits (signs of ``raw``, candidates under ``guard_bits`` skipped), while values and gradients
    come from ``tanh(raw)``.
    """

    smallest_positive: float | None = SMALLEST_L2

    histogram: Tensor
    started: Tensor

    def __init__(
        self, bins: int = 512, rate: float = 0.01, guard: float = L2_GUARD, binary: bool = False, guard_bits: int = 2
    ) -> None:
        super().__init__()
        self.bins = int(require_at_least("bins", bins, 2))
        self.rate = require_rate("rate", rate)
        self.guard = require_at_least("guard", guard, 0.0)
        self.binary = binary
        if binary:
            self.smallest_positive = None  # the relaxed distance of a vector to itself depends on its length
        self.guard_bits = int(require_at_least("guard_bits", guard_bits, 0))
        self.register_buffer("histogram", torch.zeros(self.bins))
        self.register_buffer("started", torch.tensor(False))

    @classmethod
    def settings_for_run(cls, *, steps: int, batch: int, seed: int) -> dict[str, Any]:
        return {"bins": max(2, batch // 2)}  # published as 512 for batches of 1024

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        if self.bins > len(pairs.anchor):
            raise UserError(f"bins must not exceed the {len(pairs.anchor)} pairs of the batch, got {self.bins}")
        if self.binary:
            positive, negative, hardness = _binary_triplets(pairs, self.guard_bits)
        else:
            negative = hardest_across(pairs, self.guard)
            positive = l2(pairs.anchor, pairs.positive)
            hardness = (positive - negative).detach()
        weight = self._share_at_most_as_hard(hardness, pairs.rows)
        total = (weight * (positive - negative)).mean()
        return {"total": total, "positive": positive.mean(), "negative": negative.mean(), "weight": weight.mean()}

    @torch.no_grad()
    def _share_at_most_as_hard(self, hardness: Tensor, rows: Rows) -> Tensor:
        position = ((hardness + 2.0) * ((self.bins - 1) / 4.0)).clamp(0.0, self.bins - 1.0)
        nodes = torch.arange(self.bins, dtype=position.dtype, device=position.device)
        # (R, bins) at once: small, and unlike a scattered addition the same on every run.
        batch = rows.total((1.0 - (rows.own(position)[:, None] - nodes).abs()).clamp_min(0.0).sum(0)) / len(position)
        histogram = torch.where(self.started, self.histogram + self.rate * (batch - self.histogram), batch)
        if self.training:
            self.histogram.copy_(histogram)
            self.started.fill_(True)
        # The clamp keeps even NaN a valid index, which a GPU would not survive otherwise.
        return histogram.cumsum(0).gather(0, position.floor().long().clamp_(0, self.bins - 1))


def _binary_triplets(pairs: Pairs, guard_bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Relaxed distances with gradient to the positive and the mined negative, and ``d+ - d-`` of the bits, each (P,)."""
    anchor, positive = torch.tanh(pairs.raw_anchor), torch.tanh(pairs.raw_positive)
    (count, dim), rows, ignore = anchor.shape, pairs.rows, pairs.ignore_across

    def apart(x: Tensor, y: Tensor) -> Tensor:
        return 1.0 - x @ y.T / dim

    soft = both_ways(apart, anchor, positive, rows)
    with torch.no_grad():
        # A differing bit counts 2 / dim.
        hard = both_ways(apart, (anchor > 0).to(anchor) * 2.0 - 1.0, (positive > 0).to(anchor) * 2.0 - 1.0, rows)
        nearest = []
        for differing, relaxed, ignored in zip(hard, soft, (ignore, None if ignore is None else ignore.T), strict=True):
            excluded = same_point(count, anchor.device, rows) | (differing < (2.0 * guard_bits - 1.0) / dim)
            if ignored is not None:
                excluded = excluded | rows.own(ignored)
            # Many candidates differ in equally many bits; the relaxed distance decides between them.
            nearest.append((differing + relaxed * (0.5 / dim)).masked_fill(excluded, NOTHING_LEFT).min(1))
        there, back = nearest
        use_there = there.values <= back.values

    def chosen(tables: tuple[Tensor, Tensor]) -> Tensor:
        of_each = [table.gather(1, best.indices[:, None])[:, 0] for table, best in zip(tables, nearest, strict=True)]
        return torch.where(use_there, of_each[0], of_each[1])

    of_positives, of_negatives = rows.gathered(rows.diagonal(soft[0])), rows.gathered(chosen(soft))
    return of_positives, of_negatives, rows.gathered(rows.diagonal(hard[0]) - chosen(hard))
