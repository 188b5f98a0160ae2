"""Objectives: each takes a DescriptorBatch and returns a dict with ``total`` and named parts for the log."""

from typing import Any

from patchprint.common.registry import LazyRegistry
from patchprint.losses.auxiliary import SEC, Distillation, MatchRanking, NormPenalty
from patchprint.losses.loss import DescriptorBatch, Loss, PairLoss

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

__all__ = [
    "LOSSES",
    "SEC",
    "DescriptorBatch",
    "Distillation",
    "Loss",
    "MatchRanking",
    "NormPenalty",
    "PairLoss",
    "create",
]


def create(name: str, /, **settings: Any) -> Loss:
    """Make a loss by its name; settings are the arguments of its class."""
    loss: Loss = LOSSES.create(name, **settings)
    return loss
