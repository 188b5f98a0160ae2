"""Whole-image embeddings beside pytorch-metric-learning (an extra): our losses called its way, SEC as its regularizer.

The losses themselves are in ``patchprint.losses``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchprint.losses.metric_learning.labels import WithLabels

if TYPE_CHECKING:
    from patchprint.losses.metric_learning.regularizers import SECRegularizer

__all__ = ["SECRegularizer", "WithLabels"]


def __getattr__(name: str) -> Any:
    # It inherits from a class of the library: loaded on first use, which says what to install where that is missing.
    if name == "SECRegularizer":
        from patchprint.losses.metric_learning.regularizers import SECRegularizer

        return SECRegularizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
