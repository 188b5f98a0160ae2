"""Adapters to pytorch-metric-learning (an extra): its losses here, our losses called its way, and SEC as its regularizer."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from patchprint.common.errors import UserError, require
from patchprint.common.registry import Registry
from patchprint.losses.auxiliary import SphereDeviation
from patchprint.losses.classes import labels_of_samples
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


class LibraryLoss(Loss):
    """The loss called ``name`` in ``pytorch_metric_learning.losses``, on pairs or triplets that a miner of
    ``pytorch_metric_learning.miners`` chose, or on all.

    It reads back to the host and makes tensors whose shapes depend on the labels, so training with it is neither compiled
    nor recorded. It is given the vectors as the network made them, which is what regularizers among its ``settings`` expect.
    Losses with weights for each class of the training set are refused: a batch knows its own classes only.
    """

    fixed_shapes = False
    takes_labels = True
    variants: ClassVar = {
        "contrastive": {},
        "mined": {"name": "MultiSimilarityLoss", "settings": {"beta": 40}, "miner": "MultiSimilarityMiner"},
    }

    def __init__(
        self,
        name: str = "ContrastiveLoss",
        settings: dict[str, Any] | None = None,
        miner: str | None = None,
        miner_settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.loss = _make("loss", name, settings)
        if any(True for _ in self.loss.parameters()):
            raise UserError(f"{name} learns weights of its own, which training here does not; take a loss without")
        self.miner = None if miner is None else _make("miner", miner, miner_settings)

    def compute(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        if batch.ignore is not None:
            raise UserError("losses of pytorch-metric-learning count all pairs, so batch.ignore must be None")
        vectors, labels = batch.raw.flatten(0, 1), labels_of_samples(batch)
        if batch.valid is not None:
            exists = batch.valid.flatten()
            vectors, labels = vectors[exists], labels[exists]
        total = self.loss(vectors, labels, None if self.miner is None else self.miner(vectors, labels))
        # Some of its reducers leave out what is not a number; training must see it.
        return {"total": total + 0.0 * vectors.sum()}


def _make(kind: str, name: str, settings: dict[str, Any] | None) -> Any:
    plural, base = {"loss": ("losses", "BaseMetricLossFunction"), "miner": ("miners", "BaseMiner")}[kind]
    module = require(f"pytorch_metric_learning.{plural}", extra="metric-learning")
    ancestor = getattr(module, base)
    classes = inspect.getmembers(module, inspect.isclass)
    found = {key: each for key, each in classes if issubclass(each, ancestor) and each is not ancestor}
    try:
        return Registry(f"{kind} of pytorch-metric-learning called", found)[name](**(settings or {}))
    except TypeError as error:
        given = settings or "no settings"
        raise UserError(f"{name} of pytorch-metric-learning cannot be made with {given}: {error}") from error
