"""SEC as an ``embedding_regularizer`` of pytorch-metric-learning.

    loss = losses.TripletMarginLoss(
        margin=1.0, distance=LpDistance(power=2), reducer=MeanReducer(),
        embedding_regularizer=SECRegularizer(), embedding_reg_weight=1.0,
    )

The library hands a regularizer the embeddings as the network made them, which is where SEC wants the norms. The plain L2-norm
regularizer to compare with is the library's own ``LpRegularizer(power=2)``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from patchprint.common.optional import require
from patchprint.losses.loss import at_least_float32
from patchprint.losses.sec import SphereDeviation

_regularizers = require("pytorch_metric_learning.regularizers", extra="metric-learning")


class SECRegularizer(_regularizers.BaseRegularizer):  # type: ignore[name-defined]
    """``mean_i (|x_i| - mu)^2``; mu is the mean norm of the batch, or a moving mean with ``momentum`` below 1.

    With ``collect_stats=True`` the norms' mean and variance of the last batch are in ``norm_mean`` and ``norm_variance``,
    where the library's record keeper finds them.
    """

    def __init__(self, momentum: float = 1.0, **settings: Any) -> None:
        super().__init__(**settings)
        self.deviation = SphereDeviation(momentum)
        self.add_to_recordable_attributes(list_of_names=["norm_mean", "norm_variance"], is_stat=True)

    def compute_loss(self, embeddings: Tensor) -> dict[str, dict[str, Any]]:
        """
        Shape:
            embeddings (N, D) before normalization; the reducer averages the N penalties.
        """
        norms = torch.linalg.vector_norm(at_least_float32(embeddings), dim=1)
        if self.collect_stats:
            self.norm_mean, self.norm_variance = norms.mean().item(), norms.var(correction=0).item()
        penalties = self.deviation(norms, norms.detach().mean())
        indices = torch.arange(len(embeddings), device=embeddings.device)
        return {"loss": {"losses": penalties, "indices": indices, "reduction_type": "element"}}
