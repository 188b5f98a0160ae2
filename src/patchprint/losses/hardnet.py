"""HardNet (Mishchuk et al. 2017): the hardest negative in the batch, with its GOR and CPR terms."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from patchprint.common import rng
from patchprint.common.errors import UserError
from patchprint.losses.loss import PairLoss, Pairs, require_at_least, require_choice
from patchprint.losses.mining import L2_GUARD, SMALLEST_L2, hardest_across, l2, root, same_point, squared_across

MINING = ("hardest", "average", "random")
FORMS = ("triplet", "softmax", "contrastive")


class HardNetLoss(PairLoss):
    """``mean_i max(0, margin + d+_i - d-_i)``, zeros included.

    ``mining``: *hardest* takes the smallest distance in row i and (``swap``) column i of the anchors-to-positives matrix;
    *random* takes one other point per anchor; *average* takes all of them and averages over the P (P - 1) pairs.
    ``form``: *triplet*; *softmax* is ``-log[e^(2-d+) / (e^(2-d+) + e^(2-d-))]``; *contrastive* is
    ``max(0, margin - d-) + d+``. Negatives closer than ``guard`` are skipped as false ones.

    ``active_only`` divides by the number of triplets inside the margin instead of by P, as SDGMNet's "HardNet+FRN" does.
    ``gor`` and ``cpr`` weigh the two regularizers (published weight 1). GOR's random non-matching patches come from a
    derangement of the positives instead of a third pass through the network.
    """

    smallest_positive = SMALLEST_L2

    def __init__(
        self,
        margin: float = 1.0,
        mining: str = "hardest",
        form: str = "triplet",
        swap: bool = True,
        guard: float = L2_GUARD,
        active_only: bool = False,
        gor: float = 0.0,
        cpr: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.margin = require_at_least("margin", margin, 0.0)
        self.mining = require_choice("mining", mining, MINING)
        self.form = require_choice("form", form, FORMS)
        self.guard = require_at_least("guard", guard, 0.0)
        self.gor = require_at_least("gor", gor, 0.0)
        self.cpr = require_at_least("cpr", cpr, 0.0)
        self.swap = swap
        if active_only and mining == "average":
            raise UserError("active_only goes with mining 'hardest' or 'random', where a point has one triplet")
        self.active_only = active_only
        self.seed = seed
        self.draws_by_position = mining == "random" or gor > 0.0

    @classmethod
    def settings_for_run(cls, *, steps: int, batch: int, seed: int) -> dict[str, Any]:
        return {"seed": seed}

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        key, rows = rng.key(self.seed, pairs.step), pairs.rows
        positive = l2(pairs.anchor, pairs.positive)
        negative = self._negatives(pairs, rng.fold_in(key, 1))
        if self.mining == "average":
            count = len(positive)
            # The diagonal holds no negatives; it is weighted out of the mean, which keeps shapes fixed.
            others = ~same_point(count, positive.device, rows)
            penalty = self._penalty(rows.own(rows.shared(positive))[:, None], negative)
            metric = rows.total((penalty * others).sum()) / (count * (count - 1))
            negative = rows.gathered(negative.detach().mean(1))
        else:
            penalty = self._penalty(positive, negative)
            metric = penalty.sum() / (penalty > 0).sum().clamp_min(1) if self.active_only else penalty.mean()
        parts = {"total": metric, "metric": metric, "positive": positive.mean(), "negative": negative.mean()}
        if self.gor:
            parts["gor"] = global_orthogonality(pairs.anchor, deranged(pairs.positive, rng.fold_in(key, 2)))
            parts["total"] = parts["total"] + self.gor * parts["gor"]
        if self.cpr:
            parts["cpr"] = correlation_penalty(pairs.anchor)
            parts["total"] = parts["total"] + self.cpr * parts["cpr"]
        return parts

    def _negatives(self, pairs: Pairs, key: Tensor) -> Tensor:
        """Distance of each point to its negative, (P,); with mining "average" the own rows (R, P) of all of them."""
        if self.mining == "hardest":
            return hardest_across(pairs, self.guard, self.swap)
        squared, back = squared_across(pairs, self.guard)
        if self.swap:
            squared = torch.minimum(squared, back)
        if self.mining == "average":
            return root(squared)
        other = pairs.rows.own(other_points(len(pairs.anchor), key))
        return pairs.rows.gathered(root(squared.gather(1, other[:, None])[:, 0]))

    def _penalty(self, positive: Tensor, negative: Tensor) -> Tensor:
        if self.form == "softmax":
            return softplus(positive - negative)
        if self.form == "contrastive":
            return torch.relu(self.margin - negative) + positive
        return torch.relu(self.margin + positive - negative)


class ExpTLSurrogateLoss(HardNetLoss):
    """``mean_i e^(d+_i) + e^(2 - d-_i)`` with HardNet's mining, a surrogate of Exp-TL whose formula is not known here.

    As in the published loss, the pull on positives grows and the push on negatives falls exponentially with distance. The
    hard-positive mining of the original needs more than two views and is left out.
    """

    def __init__(self, guard: float = L2_GUARD) -> None:
        super().__init__(guard=guard)

    @classmethod
    def settings_for_run(cls, *, steps: int, batch: int, seed: int) -> dict[str, Any]:
        return {}

    def _penalty(self, positive: Tensor, negative: Tensor) -> Tensor:
        return torch.exp(positive) + torch.exp(2.0 - negative)


def other_points(count: int, key: Tensor) -> Tensor:
    """For each point the index of another one: a random cyclic shift, which fixes no point; (count,) int64."""
    shift = 1 + rng.integers(key, count - 1, ())
    return (torch.arange(count, device=key.device) + shift) % count


def deranged(values: Tensor, key: Tensor) -> Tensor:
    """Permute the rows of values (P, D) so that none keeps its place."""
    return values.index_select(0, other_points(len(values), key))


def global_orthogonality(anchor: Tensor, other: Tensor) -> Tensor:
    """GOR: ``(mean a.n)^2 + max(0, mean (a.n)^2 - 1/D)`` of anchor and other (P, D); the published 1/128 is 1/D."""
    cosine = (anchor * other).sum(1)
    return cosine.mean().square() + torch.relu(cosine.square().mean() - 1.0 / anchor.shape[1])


def correlation_penalty(anchor: Tensor) -> Tensor:
    """CPR: Frobenius norm of the off-diagonal of the covariance of anchors (P, D)."""
    centered = anchor - anchor.mean(0)
    scatter = centered.T @ centered
    off_diagonal = scatter - torch.diag(scatter.diagonal())
    return torch.linalg.vector_norm(off_diagonal) / len(anchor)
