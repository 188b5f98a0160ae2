"""L2-Net (Tian, Fan and Wu 2017): relative distances, compact descriptors, discriminative intermediate maps."""

from collections.abc import Callable

import torch
from torch import Tensor

from patchprint.common.distributed import ALL_ROWS, Rows
from patchprint.common.errors import UserError
from patchprint.losses.loss import PairLoss, Pairs
from patchprint.losses.mining import both_ways, root, same_point, squared_l2


class L2NetLoss(PairLoss):
    """``(E1 + E2 + E3) / P``; each term can be switched off.

    * E1: cross-entropy of rows and columns of ``2 - d(a_i, p_j)``, each half weighted, no temperature, no margin. With
      ``within``, the negatives of a descriptor are those of both views (``Y^T Y`` of Sec. 3.3, an early form).
    * E2: half the sum of squared off-diagonal entries of ``Y^T Y / P``, per view, on the raw descriptors: the correlation of
      the dimensions when the last batch norm normalizes each view alone (``ViewBatchNorm2d``). The paper writes a division by
      the dimension, which equals P there.
    * E3: E1's form on inner products of the normalized maps that the network gives: the first and the last, or those of all
      layers where the network has the option ``maps="all"``.

    The paper has sums; its optimizer divides by the batch size, so all three are divided by P here. Ignored pairs are not
    supported, since no negative is mined.
    """

    def __init__(self, e1: bool = True, e2: bool = True, e3: bool = True, within: bool = False) -> None:
        super().__init__()
        if not (e1 or e2 or e3):
            raise UserError("e1, e2 and e3 are all off; switch at least one on")
        self.e1, self.e2, self.e3, self.within = e1, e2, e3, within
        self.needs_maps = e3

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        if pairs.ignore is not None:
            raise UserError("l2net compares all pairs, so batch.ignore must be None")
        parts = {}
        if self.e1:
            entropy = relative_entropy_within if self.within else relative_entropy
            parts["e1"] = entropy(_closeness, pairs.anchor, pairs.positive, pairs.rows)
        if self.e2:
            parts["e2"] = (redundancy(pairs.raw_anchor) + redundancy(pairs.raw_positive)) / (2 * len(pairs.anchor))
        if self.e3:
            layers = [relative_entropy(torch.inner, anchor, positive, pairs.rows) for anchor, positive in pairs.maps]
            parts["e3"] = torch.stack(layers).sum()
        total = torch.stack(list(parts.values())).sum()
        return {"total": total, **parts}


def relative_entropy(
    logits: Callable[[Tensor, Tensor], Tensor], anchor: Tensor, positive: Tensor, rows: Rows = ALL_ROWS
) -> Tensor:
    """Mean over i of ``-1/2 (log softmax over row i + log softmax over column i)`` at (i, i) of the table (P, P) of logits."""
    by_row, by_column = both_ways(logits, anchor, positive, rows)
    return rows.gathered(0.5 * (by_column.logsumexp(1) + by_row.logsumexp(1)) - rows.diagonal(by_row)).mean()


def relative_entropy_within(
    logits: Callable[[Tensor, Tensor], Tensor], anchor: Tensor, positive: Tensor, rows: Rows
) -> Tensor:
    """Mean over all 2P descriptors of ``-log softmax`` at their match, over all others of both views."""
    both = rows.shared(torch.cat([anchor, positive]))
    table = logits(rows.own(both, stacked=2), both)
    same = same_point(len(anchor), both.device, rows)
    entropy = table.masked_fill(torch.block_diag(same, same), -torch.inf).logsumexp(1)
    (_, there), (back, _) = (half.chunk(2, dim=1) for half in table.chunk(2))
    matches = torch.cat([rows.diagonal(there), rows.diagonal(back)])
    return rows.gathered(torch.stack((entropy - matches).chunk(2)).mean(0)).mean()


def _closeness(x: Tensor, y: Tensor) -> Tensor:
    return 2.0 - root(squared_l2(x, y))


def redundancy(raw: Tensor) -> Tensor:
    """Sum of the squared off-diagonal entries of ``raw^T raw / P``, raw (P, D)."""
    correlation = raw.T @ raw / len(raw)
    return (correlation - torch.diag(correlation.diagonal())).square().sum()
