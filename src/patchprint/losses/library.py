"""Any loss of pytorch-metric-learning (an extra), by its name there.

It reads back to the host and makes tensors whose shapes depend on the labels, so training with it is neither compiled nor
recorded. Losses of our own are in the files beside this one.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.common.optional import require
from patchprint.common.registry import Registry
from patchprint.losses.classes import labels_of_samples
from patchprint.losses.descriptor_batch import DescriptorBatch
from patchprint.losses.loss import Loss, at_least_float32


class LibraryLoss(Loss):
    """The loss called ``name`` in ``pytorch_metric_learning.losses``, on pairs or triplets that a miner of
    ``pytorch_metric_learning.miners`` chose, or on all.

    It is given the vectors as the network made them, which is what regularizers among its ``settings`` expect. Losses with
    weights of their own, one for each class of the training set, are refused: a batch knows its own classes only.
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
        vectors, labels = at_least_float32(batch.raw).flatten(0, 1), labels_of_samples(batch)
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
    found = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, ancestor) and value is not ancestor
    }
    try:
        return Registry(f"{kind} of pytorch-metric-learning called", found)[name](**(settings or {}))
    except TypeError as error:
        given = settings or "no settings"
        raise UserError(f"{name} of pytorch-metric-learning cannot be made with {given}: {error}") from error
