"""Whole-image embeddings: SEC and the losses of deep metric learning, beside pytorch-metric-learning (an extra)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from patchprint.metric_learning.losses import SemiHardTripletLoss, TupletMarginLoss, normalized_n_pair

if TYPE_CHECKING:
    from patchprint.metric_learning.regularizers import SECRegularizer
    from patchprint.metric_learning.similarity import ScaledCosineSimilarity

# These inherit from the library's classes; they are loaded on first use, which says what to install where it is missing.
_OF_THE_LIBRARY = {"SECRegularizer": "regularizers", "ScaledCosineSimilarity": "similarity"}

__all__ = ["SECRegularizer", "ScaledCosineSimilarity", "SemiHardTripletLoss", "TupletMarginLoss", "normalized_n_pair"]


def __getattr__(name: str) -> Any:
    if name in _OF_THE_LIBRARY:
        return getattr(importlib.import_module(f"{__name__}.{_OF_THE_LIBRARY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
