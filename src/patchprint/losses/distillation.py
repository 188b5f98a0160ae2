"""Distillation: train a network to reproduce the descriptors of a trained one, the teacher."""

from __future__ import annotations

from torch import Tensor

from patchprint.common.distributed import ALL_ROWS, Rows
from patchprint.common.errors import UserError
from patchprint.losses.loss import DescriptorBatch, Loss, require_at_least

BLOCK = 2048  # patches compared with each other, so that memory does not grow with the square of the batch


class Distillation(Loss):
    """``weight * loss + cosine * mean(1 - cos) + similarity * mean((S - T)^2)``.

    ``cos`` is between the descriptor and the teacher's of the same patch; S and T are the similarities (dot products) of
    all pairs of `BLOCK` patches, by the network and by the teacher. With ``weight`` 0 the other loss is not computed, so that
    patches need no labels.

    Where the dimensions differ, the cosine falls away and the similarities teach alone. They need no map between the spaces:
    the descriptors that come nearest to T are the best projection of the teacher's (Eckart and Young), up to a rotation that
    no distance notices.
    """

    def __init__(self, loss: Loss, weight: float = 1.0, cosine: float = 1.0, similarity: float = 4.0) -> None:
        super().__init__()
        self.loss = loss
        self.weight = require_at_least("weight", weight, 0.0)
        self.cosine = require_at_least("cosine", cosine, 0.0)
        self.similarity = require_at_least("similarity", similarity, 0.0)
        if weight:
            self.copy_traits_from(loss)
        else:
            self.takes_labels, self.binary = True, None

    def compute(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        if batch.teacher is None:
            raise UserError("Distillation needs batch.teacher, the teacher's descriptors of the same patches")
        learned, taught, counts = batch.desc.flatten(0, 1), batch.teacher.flatten(0, 1), batch.counts
        parts = dict(self.loss(batch)) if self.weight else {}
        total = self.weight * parts.pop("total") if self.weight else learned.new_zeros(())
        if self.cosine and learned.shape[1] == taught.shape[1]:
            apart = (counts * (1 - (learned * taught).sum(1))).sum()
            parts["teacher_cosine"] = apart / counts.sum().clamp_min(1)
            total = total + self.cosine * parts["teacher_cosine"]
        if self.similarity:
            parts["teacher_similarity"] = similarity_difference(learned, taught, counts, batch.rows)
            total = total + self.similarity * parts["teacher_similarity"]
        return {"total": total, **parts}


def similarity_difference(learned: Tensor, taught: Tensor, counts: Tensor, rows: Rows = ALL_ROWS) -> Tensor:
    """Mean squared difference of the similarities that two networks give all pairs of each `BLOCK` of patches.

    Shape:
        learned (N, D), taught (N, T) unit length, counts (N,): 1, or 0 where a patch does not count -> 0-dim.
    """
    learned, first, size = rows.shared(learned), rows.first(len(learned)), len(rows.own(counts))
    difference, pairs = learned.new_zeros(()), learned.new_zeros(())
    blocks = zip(learned.split(BLOCK), taught.split(BLOCK), counts.split(BLOCK), strict=True)
    for number, (one, other, count) in enumerate(blocks):
        start = first - number * BLOCK
        own = slice(max(start, 0), max(start + size, 0))
        # A patch that does not count is the zero vector, whose similarities are equal.
        one, other = one * count[:, None], other * count[:, None]
        difference = difference + (one[own] @ one.T - other[own] @ other.T).square().sum()
        pairs = pairs + count.sum().square()
    return rows.total(difference) / pairs.clamp_min(1)
