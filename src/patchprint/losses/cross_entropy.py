"""Cross-entropy of each positive among negatives: normalized n-pair (Sohn 2016) and NT-Xent of SimCLR (Chen et al. 2020)."""

from torch import Tensor
from torch.nn.functional import softplus

from patchprint.common.errors import UserError
from patchprint.losses.classes import ClassLoss, Samples, log_sum_where
from patchprint.losses.loss import require_at_least


class NPairLoss(ClassLoss):
    """Mean over classes of the cross-entropy of their first sample among the second samples of all classes, logits
    ``scale * cos``. Classes with one sample, and third samples, do not count.

    The published scales are 25 (vectors of length 5) and 64.
    """

    ordered_views = True

    def __init__(self, scale: float = 25.0) -> None:
        super().__init__()
        self.scale = require_at_least("scale", scale, 0.0)

    def compute_samples(self, samples: Samples) -> dict[str, Tensor]:
        logits = self.scale * samples.cosine()
        rows = samples.rows
        number = samples.same.tril(rows.first(len(samples.unit)) - 1).sum(1)  # samples of the class that come before
        second = (rows.gathered(number) == 1)[None]
        own = samples.positive & (number == 0)[:, None] & second
        others = log_sum_where(logits, samples.negative & second)
        return {"total": samples.mean_where(softplus(others - logits), own)}


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
