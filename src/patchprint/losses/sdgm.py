"""SDGMNet (Ma and Deng): gradients of pairs modulated by running statistics of their angles."""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.losses.loss import PairLoss, Pairs, require_at_least, require_choice, require_rate
from patchprint.losses.mining import ANGLE_GUARD, COSINE_LIMIT, SMALLEST_ANGLE, angle, hardest_cosine

SELF_WEIGHTS = ("auto-focus", "theta", "s", "l2")
COUPLED_WEIGHTS = ("cdf", "step", "none")
PUBLISHED_STEPS = 200_000
PUBLISHED_RATE = 0.001
FASTEST_RATE = 0.1
SMALLEST_SPREAD = 1e-6  # of a standard deviation or a power, so that a batch of equal descriptors divides by no zero


class Spread(NamedTuple):
    """Mean and standard deviation of an angle, both 0-dim."""

    mean: Tensor
    std: Tensor


class SDGMLoss(PairLoss):
    """Pseudo loss ``alpha / E[P+] sum w+ theta+ - 1 / E[P-] sum w- theta-`` with detached weights; usually negative.

    A pair's weight is its self weight times the weight of its triplet (coupled weight).

    * ``self_weight``: *auto-focus* ``exp(-(theta - E)^2 / (2 (pi/6 + Std)^2))``, apart for positives and negatives;
      *theta* 1; *s* ``sin theta``; *l2* ``cos(theta / 2)``: the weights that angle, cosine and L2 distance imply.
    * ``coupled``: *cdf* gives ``Phi(z)`` for ``z = (theta_r - E_r) / Std_r`` above ``Phi^-1(margin)``, else 0, with
      ``theta_r = theta+ - theta-``; *step* gives 1 above it; *none* gives 1 everywhere. The released code has the step, the
      released logs agree with the paper's cdf.
    * ``power_adjustment``: without it the loss is ``mean(w+ theta+ - w- theta-)``, the paper's "-PA".

    For the first ``warmup`` part of training weights are 1 while all statistics run, and the false-negative guard is off.
    Statistics are moving averages of rate 0.001 at 200,000 steps; with ``total_steps`` the rate becomes 200 / total_steps (at
    most 0.1), so that they look back over the same part of the run. They start at the first batch, but E[P] starts at
    ``initial_power`` times the number of pairs (10,000 at 1024), a slow ramp of the learning rate; 1 leaves the ramp out.
    """

    smallest_positive = SMALLEST_ANGLE

    moments: Tensor
    powers: Tensor
    started: Tensor

    def __init__(
        self,
        alpha: float = 0.9,
        margin: float = 0.6,
        self_weight: str = "auto-focus",
        coupled: str = "cdf",
        power_adjustment: bool = True,
        total_steps: int | None = None,
        rate: float | None = None,
        initial_power: float = 10_000 / 1024,
        warmup: float = 0.1,
        guard: float = ANGLE_GUARD,
    ) -> None:
        super().__init__()
        self.alpha = require_at_least("alpha", alpha, 0.0)
        if not 0.0 <= margin < 1.0:
            raise UserError(f"margin must be a probability in [0, 1), got {margin:g}")
        self.least_z = NormalDist().inv_cdf(margin) if margin > 0.0 else -math.inf
        self.self_weight = require_choice("self_weight", self_weight, SELF_WEIGHTS)
        self.coupled = require_choice("coupled", coupled, COUPLED_WEIGHTS)
        self.power_adjustment = power_adjustment
        if rate is None:
            steps = PUBLISHED_STEPS if total_steps is None else require_at_least("total_steps", total_steps, 1)
            rate = min(FASTEST_RATE, PUBLISHED_RATE * PUBLISHED_STEPS / steps)
        self.rate = require_rate("rate", rate)
        self.initial_power = require_at_least("initial_power", initial_power, 0.0)
        self.warmup = require_at_least("warmup", warmup, 0.0)
        self.cosine_guard = math.cos(require_at_least("guard", guard, 0.0))
        self.register_buffer("moments", torch.zeros(3, 2))  # rows theta+, theta-, theta_r; columns mean, std
        self.register_buffer("powers", torch.zeros(2))  # E[P+], E[P-]
        self.register_buffer("started", torch.tensor(False))

    @classmethod
    def settings_for_run(cls, *, steps: int, batch: int, seed: int) -> dict[str, Any]:
        return {"total_steps": steps}

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        warming = pairs.progress < self.warmup
        limit = torch.where(warming, COSINE_LIMIT, self.cosine_guard)
        positive = angle((pairs.anchor * pairs.positive).sum(1))
        negative = angle(hardest_cosine(pairs.anchor, pairs.positive, limit, pairs.ignore, pairs.rows))
        with torch.no_grad():
            angles = torch.stack([positive, negative, positive - negative])
            batch_moments = torch.stack([angles.mean(1), angles.std(1)], dim=1)
            moments = torch.where(
                self.started, self.moments + self.rate * (batch_moments - self.moments), batch_moments
            )
            spreads = [Spread(*row.unbind()) for row in moments.unbind()]
            weights = torch.stack(self.weights(positive, negative, *spreads))
            weights = torch.where(warming, torch.ones_like(weights), weights)
            batch_powers = weights.sum(1)
            start = torch.full_like(self.powers, self.initial_power * len(positive))
            earlier = torch.where(self.started, self.powers, start)
            powers = earlier + self.rate * (batch_powers - earlier)
            if self.training:
                self.moments.copy_(moments)
                self.powers.copy_(powers)
                self.started.fill_(True)
        sums = (weights * torch.stack([positive, negative])).sum(1)
        if self.power_adjustment:
            share = sums / powers.clamp_min(SMALLEST_SPREAD)
            total = self.alpha * share[0] - share[1]
        else:
            total = (sums[0] - sums[1]) / len(positive)
        names = ("positive", "negative", "relative")
        parts = {"total": total, "power_positive": powers[0], "power_negative": powers[1]}
        parts |= {name: spread.mean for name, spread in zip(names, spreads, strict=True)}
        return parts | {f"{name}_std": spread.std for name, spread in zip(names, spreads, strict=True)}

    def weights(
        self, positive: Tensor, negative: Tensor, of_positive: Spread, of_negative: Spread, of_relative: Spread
    ) -> tuple[Tensor, Tensor]:
        """Weights after warm-up of positive and of negative angles (P,), (P,), from their statistics."""
        z = (positive - negative - of_relative.mean) / of_relative.std.clamp_min(SMALLEST_SPREAD)
        kept = z > self.least_z
        coupled = torch.special.ndtr(z) * kept if self.coupled == "cdf" else kept.to(z.dtype)
        if self.coupled == "none":
            coupled = torch.ones_like(z)
        return coupled * self._self_weight(positive, of_positive), coupled * self._self_weight(negative, of_negative)

    def _self_weight(self, theta: Tensor, spread: Spread) -> Tensor:
        if self.self_weight == "auto-focus":
            return torch.exp(-(theta - spread.mean).square() / (2.0 * (math.pi / 6 + spread.std).square()))
        if self.self_weight == "s":
            return torch.sin(theta)
        if self.self_weight == "l2":
            return torch.cos(theta / 2)
        return torch.ones_like(theta)
