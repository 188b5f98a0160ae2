"""Adapters to pytorch-metric-learning (an extra): our losses called its way, and SEC as its regularizer."""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from patchprint.common.errors import require
from patchprint.losses.auxiliary import SphereDeviation
from patchprint.losses.loss import DescriptorBatch, Loss, at_least_float32


class WithLabels(nn.Module):
    """``WithLabels(losses.create("semihard"))(embeddings, labels)``, for classes of any size in any order.

    The embeddings are those of the network, before normalization; SEC around a loss sees their norms.
    """

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Loss (0-dim, at least float32) of embeddings (N, D) with labels (N,) int64."""
        with torch.autocast(embeddings.device.type, enabled=False):
            raw = at_least_float32(embeddings)[:, None]
            batch = DescriptorBatch(
                desc=normalize(raw, dim=-1),
                raw=raw,
                progress=raw.new_zeros(()),
                step=labels.new_zeros(()),
                label=labels.to(raw.device),
            )
            return self.loss(batch)["total"]


class SECRegularizer(nn.Module):
    """SEC as an ``embedding_regularizer`` of the library: ``mean_i (|x_i| - mu)^2``.

    ``TripletMarginLoss(embedding_regularizer=SECRegularizer(), embedding_reg_weight=1.0)``; mu is the mean norm of the batch,
    or a moving mean with ``momentum`` below 1. ``norm_mean`` and ``norm_variance`` of the last batch are where the library's
    record keeper finds them. The plain norm penalty to compare with is the library's ``LpRegularizer(power=2)``.
    """

    norm_mean: Tensor
    norm_variance: Tensor

    def __init__(self, momentum: float = 1.0) -> None:
        super().__init__()
        self.deviation = SphereDeviation(momentum)
        records = require("pytorch_metric_learning.utils.common_functions", extra="metric-learning")
        records.add_to_recordable_attributes(self, list_of_names=["norm_mean", "norm_variance"], is_stat=True)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Mean penalty (0-dim) of embeddings (N, D) before normalization, as the library passes them on."""
        norms = torch.linalg.vector_norm(at_least_float32(embeddings), dim=1)
        self.norm_mean, self.norm_variance = norms.detach().mean(), norms.detach().var(correction=0)
        deviation: Tensor = self.deviation(norms, self.norm_mean)
        return deviation.mean()
