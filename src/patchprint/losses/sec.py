"""SEC, the spherical embedding constraint (Zhang et al. 2020), and the plain norm penalty it is compared with.

Losses on unit vectors turn an embedding the faster, the shorter it is before normalisation. Keeping all norms near their
mean makes the steps even. For pytorch-metric-learning, see ``patchprint.losses.metric_learning.regularizers``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.losses.descriptor_batch import DescriptorBatch
from patchprint.losses.loss import Loss, at_least_float32, require_at_least


class SphereDeviation(nn.Module):
    """Squared difference of each norm to the mean norm: of the batch (``momentum`` 1) or a moving one (below 1).

    The moving mean, ``mu = (1 - momentum) mu + momentum * batch mean``, starts at the first batch and passes no gradient.
    """

    center: Tensor
    started: Tensor

    def __init__(self, momentum: float = 1.0) -> None:
        super().__init__()
        if not 0.0 < momentum <= 1.0:
            raise UserError(f"momentum must be in (0, 1], got {momentum:g}")
        self.momentum = momentum
        self.register_buffer("center", torch.tensor(0.0))
        self.register_buffer("started", torch.tensor(False))

    def forward(self, norms: Tensor, mean: Tensor) -> Tensor:
        """
        Shape:
            norms (N,), mean of the norms that count (0-dim) -> (N,).
        """
        with torch.no_grad():
            center = torch.where(self.started, torch.lerp(self.center.to(mean), mean, self.momentum), mean)
            if self.training:
                self.center.copy_(center)
                self.started.fill_(True)
        return (norms - center).square()


class _NormRegularized(Loss):
    """Another loss plus ``weight`` times the mean of a penalty on the raw norms; views that are not valid do not count."""

    def __init__(self, loss: Loss, weight: float) -> None:
        super().__init__()
        self.loss = loss
        self.weight = require_at_least("weight", weight, 0.0)
        self.take_after(loss)

    def compute(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        norms = torch.linalg.vector_norm(at_least_float32(batch.raw), dim=-1).flatten()
        counts = torch.ones_like(norms) if batch.valid is None else batch.valid.flatten().to(norms.dtype)
        share = counts / counts.sum().clamp_min(1.0)
        mean = (share * norms).sum()
        penalty = (share * self.penalty(norms, mean)).sum()
        parts = self.loss(batch)
        return parts | {
            "total": parts["total"] + self.weight * penalty,
            "norm_penalty": penalty.detach(),
            "norm_mean": mean.detach(),
            "norm_variance": (share * (norms - mean).square()).sum().detach(),
        }

    def penalty(self, norms: Tensor, mean: Tensor) -> Tensor:
        """
        Shape:
            norms (P * K,), their mean (0-dim) -> (P * K,).
        """
        raise NotImplementedError


class SEC(_NormRegularized):
    """``loss + weight * mean_i (|x_i| - mu)^2``, x the raw descriptors; published weights are 0.1 to 1."""

    def __init__(self, loss: Loss, weight: float = 1.0, momentum: float = 1.0) -> None:
        super().__init__(loss, weight)
        self.deviation = SphereDeviation(momentum)

    def penalty(self, norms: Tensor, mean: Tensor) -> Tensor:
        return self.deviation(norms, mean)


class NormPenalty(_NormRegularized):
    """``loss + weight * mean_i |x_i|^2``, the L2-norm regulariser; published weights are 1e-4 to 5e-3."""

    def penalty(self, norms: Tensor, mean: Tensor) -> Tensor:
        return norms.square()
