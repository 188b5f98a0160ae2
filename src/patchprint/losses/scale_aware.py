"""Scale-aware loss (Keller et al. 2018): a blend of Siamese and triplet losses."""

from torch import Tensor
from torch.nn.functional import softplus

from patchprint.common.errors import UserError
from patchprint.losses.loss import PairLoss, Pairs, require_at_least
from patchprint.losses.mining import L2_GUARD, SMALLEST_L2, hardest_across, l2


class ScaleAwareLoss(PairLoss):
    """``mean_i 1/(2 delta) [softplus(2 delta (d+ - t)) + softplus(2 delta (t - d-))]``.

    The threshold ``t = gamma (d+ + d-) / 2 + (1 - gamma) t_global`` is local to the triplet for gamma 1 and common to all
    for gamma 0. Negatives are HardNet's. ``normalized=False`` takes the raw descriptors, as the paper is said to do, for
    networks whose raw distances are of the order of ``t_global``; the final batch norm of our trunks gives some near 16.
    """

    smallest_positive = SMALLEST_L2

    def __init__(
        self,
        gamma: float = 0.5,
        delta: float = 5.0,
        t_global: float = 1.15,
        normalized: bool = True,
        guard: float = L2_GUARD,
    ) -> None:
        super().__init__()
        if not 0.0 <= gamma <= 1.0:
            raise UserError(f"gamma must be in [0, 1], got {gamma:g}")
        if not delta > 0.0:
            raise UserError(f"delta must be above 0, got {delta:g}")
        self.gamma = gamma
        self.delta = delta
        self.t_global = require_at_least("t_global", t_global, 0.0)
        self.normalized = normalized
        self.guard = require_at_least("guard", guard, 0.0)

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        if not self.normalized:
            pairs = pairs._replace(anchor=pairs.raw_anchor, positive=pairs.raw_positive)
        positive, negative = l2(pairs.anchor, pairs.positive), hardest_across(pairs, self.guard)
        threshold = 0.5 * self.gamma * (positive + negative) + (1.0 - self.gamma) * self.t_global
        sharpness = 2.0 * self.delta
        too_far, too_near = softplus(sharpness * (positive - threshold)), softplus(sharpness * (threshold - negative))
        total = (too_far + too_near).mean() / sharpness
        return {"total": total, "positive": positive.mean(), "negative": negative.mean()}
