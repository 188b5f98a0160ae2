"""Terms beside another loss: SEC, the norm penalty it is compared with, the ranking of all matches, and distillation."""

import torch
from torch import Tensor, nn

from patchprint.common.distributed import ALL_ROWS, Rows
from patchprint.common.errors import UserError
from patchprint.losses.loss import DescriptorBatch, Loss, PairLoss, Pairs, require_at_least, require_rate
from patchprint.losses.mining import angle, hardest_cosine

BLOCK = 2048  # patches compared with each other, so that memory does not grow with the square of the batch


class _WithTerm(Loss):
    """Another loss plus ``weight`` times a term of the same batch."""

    def __init__(self, loss: Loss, weight: float) -> None:
        super().__init__()
        self.loss = loss
        self.weight = require_at_least("weight", weight, 0.0)
        self.copy_traits_from(loss)

    def compute(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        parts = self.loss(batch)
        term, more = self.term(batch)
        return parts | more | {"total": parts["total"] + self.weight * term}

    def term(self, batch: DescriptorBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """The term (0-dim), and what it adds to the log."""
        raise NotImplementedError


class SphereDeviation(nn.Module):
    """Squared difference of each norm to the mean norm: of the batch (``momentum`` 1) or a moving one (below 1).

    The moving mean, ``mu = (1 - momentum) mu + momentum * batch mean``, starts at the first batch and passes no gradient.
    """

    center: Tensor
    started: Tensor

    def __init__(self, momentum: float = 1.0) -> None:
        super().__init__()
        self.momentum = require_rate("momentum", momentum)
        self.register_buffer("center", torch.tensor(0.0))
        self.register_buffer("started", torch.tensor(False))

    def forward(self, norms: Tensor, mean: Tensor) -> Tensor:
        """Squared differences (N,) of norms (N,), given the mean of those that count (0-dim)."""
        with torch.no_grad():
            center = torch.where(self.started, torch.lerp(self.center.to(mean), mean, self.momentum), mean)
            if self.training:
                self.center.copy_(center)
                self.started.fill_(True)
        return (norms - center).square()


class NormPenalty(_WithTerm):
    """``loss + weight * mean_i |x_i|^2``, x the raw descriptors of valid views; published weights are 1e-4 to 5e-3."""

    def term(self, batch: DescriptorBatch) -> tuple[Tensor, dict[str, Tensor]]:
        norms = torch.linalg.vector_norm(batch.raw, dim=-1).flatten()
        share = batch.counts / batch.counts.sum().clamp_min(1.0)
        mean = (share * norms).sum()
        penalty = (share * self.penalty(norms, mean)).sum()
        variance = (share * (norms - mean).square()).sum()
        return penalty, {"norm_penalty": penalty, "norm_mean": mean, "norm_variance": variance}

    def penalty(self, norms: Tensor, mean: Tensor) -> Tensor:
        """Penalty of each norm (P * K,), given their mean (0-dim)."""
        return norms.square()


class SEC(NormPenalty):
    """Spherical embedding constraint (Zhang et al. 2020): ``loss + weight * mean_i (|x_i| - mu)^2``.

    Losses on unit vectors turn an embedding the faster, the shorter it is before normalization; norms near their mean make
    the steps even. Published weights are 0.1 to 1. For pytorch-metric-learning see ``patchprint.losses.metric_learning``.
    """

    def __init__(self, loss: Loss, weight: float = 1.0, momentum: float = 1.0) -> None:
        super().__init__(loss, weight)
        self.deviation = SphereDeviation(momentum)

    def penalty(self, norms: Tensor, mean: Tensor) -> Tensor:
        deviation: Tensor = self.deviation(norms, mean)
        return deviation


class MatchRanking(_WithTerm):
    """``loss + weight * (1 - AP)``: average precision of one list that holds all right and all nearest wrong matches.

    Losses on triplets compare a point's own view with other points *of its own list*, but matching ranks the matches of all
    keypoints by distance. So right matches (angle between the views of a point) and wrong ones (angle to its hardest negative,
    found as SDGMNet does) of the whole batch are ranked in one list, with the smooth steps ``sigmoid(difference /
    temperature)`` of Smooth-AP.
    """

    def __init__(self, loss: Loss, weight: float = 1.0, temperature: float = 0.05, guard: float = 0.6) -> None:
        super().__init__(loss, weight)
        if not isinstance(loss, PairLoss):
            raise UserError(f"a ranking of matches needs a loss on pairs beside it, not {type(loss).__name__}")
        self.temperature = require_at_least("temperature", temperature, 1e-3)
        self.cosine_guard = torch.cos(torch.tensor(guard)).item()

    def term(self, batch: DescriptorBatch) -> tuple[Tensor, dict[str, Tensor]]:
        pairs = Pairs.of(batch)
        right = angle((pairs.anchor * pairs.positive).sum(1))
        wrong = angle(hardest_cosine(pairs.anchor, pairs.positive, self.cosine_guard, pairs.ignore, pairs.rows))
        among_right = self._count_nearer(right, right) + 0.5  # a match is half before itself; with this it counts once
        precision = (among_right / (among_right + self._count_nearer(right, wrong))).mean()
        return 1.0 - precision, {"ranking_ap": precision}

    def _count_nearer(self, angles: Tensor, others: Tensor) -> Tensor:
        """How many of ``others`` are nearer, smoothly counted: (N,), (M,) -> (N,)."""
        return torch.sigmoid((angles[:, None] - others) / self.temperature).sum(1)


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
