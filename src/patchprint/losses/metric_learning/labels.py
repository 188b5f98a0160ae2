"""Our losses called with embeddings and labels, as those of pytorch-metric-learning are."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from patchprint.losses import Loss
from patchprint.losses.descriptor_batch import DescriptorBatch
from patchprint.losses.loss import at_least_float32


class WithLabels(nn.Module):
    """``WithLabels(losses.create("semihard"))(embeddings, labels)``, for classes of any size in any order.

    The embeddings are those of the network, before normalization; SEC around a loss sees their norms. Where labels are on
    the device already, nothing waits for it.
    """

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """
        Shape:
            embeddings (N, D), labels (N,) int64 -> 0-dim, at least float32.
        """
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
