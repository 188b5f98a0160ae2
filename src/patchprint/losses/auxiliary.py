"""Terms that are added to another loss: SEC, the norm penalty it is compared with, and the ranking of all matches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.losses.loss import DescriptorBatch, Loss, PairLoss, Pairs, require_at_least, require_rate
from patchprint.losses.mining import angle, hardest_cosine


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
