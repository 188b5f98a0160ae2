"""The cosine times a factor as a distance of pytorch-metric-learning, whose own cosine has none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from patchprint.extras import require
from patchprint.losses.base import at_least_float32, require_at_least

_distances = require("pytorch_metric_learning.distances", extra="metric-learning")


class ScaledCosineSimilarity(_distances.CosineSimilarity):  # type: ignore[name-defined]
    """``scale * cos``: the logits of losses on unit vectors."""

    def __init__(self, scale: float, **settings: Any) -> None:
        super().__init__(**settings)
        self.scale = require_at_least("scale", scale, 0.0)

    def compute_mat(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        """
        Shape:
            query_emb (N, D), ref_emb (M, D), unit length -> (N, M) at least float32, whatever autocast says.
        """
        with torch.autocast(query_emb.device.type, enabled=False):
            return self.scale * super().compute_mat(at_least_float32(query_emb), at_least_float32(ref_emb))

    def pairwise_distance(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        """
        Shape:
            query_emb (N, D), ref_emb (N, D), unit length -> (N,).
        """
        return self.scale * super().pairwise_distance(at_least_float32(query_emb), at_least_float32(ref_emb))
