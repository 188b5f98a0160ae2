"""SOSNet (Tian et al. 2019): a quadratic triplet loss and similarity of second order."""

import torch
from torch import Tensor

from patchprint.common.distributed import Rows
from patchprint.losses.loss import PairLoss, Pairs, require_at_least
from patchprint.losses.mining import (
    L2_GUARD,
    ROOT_EPSILON,
    SMALLEST_L2,
    both_ways,
    hardest_everywhere,
    l2,
    root,
    same_point,
    squared_l2,
)


class SOSNetLoss(PairLoss):
    """``mean_i max(0, margin + d+_i - d-_i)^2 + weight * mean_i SOSR_i``, negatives from all four blocks.

    The released code sums over points; the mean differs by a constant factor only.
    """

    smallest_positive = SMALLEST_L2

    def __init__(self, margin: float = 1.0, weight: float = 1.0, neighbors: int = 8, guard: float = L2_GUARD) -> None:
        super().__init__()
        self.margin = require_at_least("margin", margin, 0.0)
        self.weight = require_at_least("weight", weight, 0.0)
        self.neighbors = int(require_at_least("neighbors", neighbors, 1))
        self.guard = require_at_least("guard", guard, 0.0)

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        positive = l2(pairs.anchor, pairs.positive)
        negative = hardest_everywhere(pairs, self.guard)
        first = torch.relu(self.margin + positive - negative).square().mean()
        second = second_order_similarity(pairs, self.neighbors)
        parts = {"metric": first, "second_order": second, "positive": positive.mean(), "negative": negative.mean()}
        return {"total": first + self.weight * second, **parts}


def second_order_similarity(pairs: Pairs, neighbors: int = 8) -> Tensor:
    """SOSR: ``mean_i sqrt(sum_{j in c_i} (d(a_i, a_j) - d(p_i, p_j))^2 + 1e-6)``.

    As in the released code, c_i holds the nearest neighbors of point i among anchors, among positives, and from one side
    to the other in both directions; j is in c_i whenever i is in c_j. Batches smaller than that use all other points.
    """
    anchor, positive, rows = pairs.anchor, pairs.positive, pairs.rows
    shared = rows.shared(anchor), rows.shared(positive)
    among_anchors, among_positives = (squared_l2(rows.own(view), view) for view in shared)
    with torch.no_grad():
        across = both_ways(squared_l2, anchor, positive, rows)
        tables = torch.stack([among_anchors, among_positives, *across])
        tables = tables.masked_fill(same_point(len(anchor), anchor.device, rows), torch.inf)
        nearest = tables.topk(min(neighbors, len(anchor) - 1), dim=2, largest=False, sorted=False).indices
        chosen = _either_chose(nearest.transpose(0, 1).flatten(1), len(anchor), rows)
    difference = (root(among_anchors) - root(among_positives)).square()
    return rows.gathered(torch.sqrt((difference * chosen).sum(1) + ROOT_EPSILON)).mean()


def _either_chose(chosen: Tensor, count: int, rows: Rows) -> Tensor:
    """Where point i chose point j, or j chose i: indices (R, C) of ``count`` points -> (R, P) bool."""
    own = torch.zeros(len(chosen), count, dtype=torch.bool, device=chosen.device).scatter(1, chosen, True)
    if rows.are_all:
        return own | own.T
    # Of what the points of all ranks chose, only the own ones matter; the rest goes into a column that is dropped.
    local = rows.gathered(chosen) - rows.first(count)
    local = torch.where((local >= 0) & (local < len(own)), local, len(own))
    by_others = torch.zeros(count, len(own) + 1, dtype=torch.bool, device=chosen.device).scatter(1, local, True)
    return own | by_others[:, :-1].T
