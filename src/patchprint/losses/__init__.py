"""Objectives: each takes a DescriptorBatch and returns a dict with ``total`` and named parts for the log."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from patchprint.common.registry import LazyRegistry
from patchprint.losses.loss import DescriptorBatch, Loss, PairLoss

if TYPE_CHECKING:
    from patchprint.losses.auxiliary import (
        SEC as SEC,
        Distillation as Distillation,
        MatchRanking as MatchRanking,
        NormPenalty as NormPenalty,
    )
    from patchprint.losses.classes import ClassLoss as ClassLoss

LOSSES: LazyRegistry[type[Loss]] = LazyRegistry(
    "loss",
    "patchprint.losses",
    {
        "l2net": "l2net:L2NetLoss",
        "doap": "doap:DOAPLoss",
        "doap-binary": "doap:BinaryDOAPLoss",
        "hardnet": "hardnet:HardNetLoss",
        "sosnet": "sosnet:SOSNetLoss",
        "hynet": "hynet:HyNetLoss",
        "sdgm": "sdgm:SDGMLoss",
        "cdf": "cdf:CDFLoss",
        "scale-aware": "scale_aware:ScaleAwareLoss",
        "tfeat": "tfeat:TFeatLoss",
        "exp-tl": "hardnet:ExpTLSurrogateLoss",
        # Deep metric learning: classes of images.
        "triplet": "triplet:TripletLoss",
        "semihard": "triplet:SemiHardTripletLoss",
        "n-pair": "cross_entropy:NPairLoss",
        "multi-similarity": "multi_similarity:MultiSimilarityLoss",
        "tuplet-margin": "tuplet_margin:TupletMarginLoss",
        "nt-xent": "cross_entropy:NTXentLoss",
    },
)
_MODULES = {
    "SEC": "auxiliary",
    "MatchRanking": "auxiliary",
    "NormPenalty": "auxiliary",
    "ClassLoss": "classes",
    "Distillation": "auxiliary",
}

__all__ = ["LOSSES", "DescriptorBatch", "Loss", "PairLoss", "create", *_MODULES]


def create(name: str, /, **settings: Any) -> Loss:
    """Make a loss by its name; settings are the arguments of its class."""
    loss: Loss = LOSSES.create(name, **settings)
    return loss


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
