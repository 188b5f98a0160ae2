"""NT-Xent, the loss of SimCLR (Chen et al. 2020)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import softplus

from patchprint.common.errors import UserError
from patchprint.losses.classes import ClassLoss, Samples, log_sum_where


class NTXentLoss(ClassLoss):
    """Mean over all views of ``-log(e^(s_ij / T) / sum_(k != i) e^(s_ik / T))``, j the other view of the image of i.

    With more than two views each positive pair is a term of its own, with the negatives of its anchor beside it.
    """

    def __init__(self, temperature: float = 0.5) -> None:
        super().__init__()
        if not temperature > 0.0:
            raise UserError(f"temperature must be above 0, got {temperature:g}")
        self.temperature = temperature

    def compute_samples(self, samples: Samples) -> dict[str, Tensor]:
        logits = samples.cosine() / self.temperature
        terms = softplus(log_sum_where(logits, samples.negative) - logits)
        return {"total": samples.mean_where(terms, samples.positive)}
