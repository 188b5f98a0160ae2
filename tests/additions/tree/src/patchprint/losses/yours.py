"""Triplets of the hardest negatives, divided by a running mean of the positive distances."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from patchprint.losses.loss import PairLoss, Pairs, require_at_least
from patchprint.losses.mining import hardest_across, l2


class YoursLoss(PairLoss):
    """``mean_i max(0, 1 + d+_i - d-_i) / (1 + mu)``, mu the running mean of d+ (detached)."""

    mean: Tensor
    started: Tensor

    def __init__(self, rate: float = 0.1) -> None:
        super().__init__()
        self.rate = require_at_least("rate", rate, 0.0)
        self.register_buffer("mean", torch.tensor(0.0))
        self.register_buffer("started", torch.tensor(False))

    @classmethod
    def settings_for_run(cls, *, steps: int, batch: int, seed: int) -> dict[str, Any]:
        return {"rate": min(1.0, 10 / steps)}

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        near = l2(pairs.anchor, pairs.positive)
        far = hardest_across(pairs)
        with torch.no_grad():
            batch_mean = near.mean()
            mean = torch.where(self.started, self.mean + self.rate * (batch_mean - self.mean), batch_mean)
            if self.training:
                self.mean.copy_(mean)
                self.started.fill_(True)
        return {"total": torch.relu(1.0 + near - far).mean() / (1.0 + mean), "far": far.mean()}
