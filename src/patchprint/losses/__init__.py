"""Objectives: each takes a DescriptorBatch and returns a dict with ``total`` and named parts for the log."""

from __future__ import annotations

from typing import Any

from patchprint.common.registry import Registry
from patchprint.losses.auxiliary import SEC, NormPenalty
from patchprint.losses.cdf import CDFLoss
from patchprint.losses.classes import ClassLoss
from patchprint.losses.cross_entropy import NPairLoss, NTXentLoss
from patchprint.losses.distillation import Distillation
from patchprint.losses.doap import BinaryDOAPLoss, DOAPLoss
from patchprint.losses.hardnet import ExpTLSurrogateLoss, HardNetLoss
from patchprint.losses.hynet import HyNetLoss
from patchprint.losses.l2net import L2NetLoss
from patchprint.losses.loss import DescriptorBatch, Loss, PairLoss
from patchprint.losses.metric_learning import LibraryLoss
from patchprint.losses.multi_similarity import MultiSimilarityLoss
from patchprint.losses.scale_aware import ScaleAwareLoss
from patchprint.losses.sdgm import SDGMLoss
from patchprint.losses.sosnet import SOSNetLoss
from patchprint.losses.tfeat import TFeatLoss
from patchprint.losses.triplet import SemiHardTripletLoss, TripletLoss
from patchprint.losses.tuplet_margin import TupletMarginLoss

LOSSES: Registry[type[Loss]] = Registry(
    "loss",
    {
        "l2net": L2NetLoss,
        "doap": DOAPLoss,
        "doap-binary": BinaryDOAPLoss,
        "hardnet": HardNetLoss,
        "sosnet": SOSNetLoss,
        "hynet": HyNetLoss,
        "sdgm": SDGMLoss,
        "cdf": CDFLoss,
        "scale-aware": ScaleAwareLoss,
        "tfeat": TFeatLoss,
        "exp-tl": ExpTLSurrogateLoss,
        # Deep metric learning: classes of images.
        "triplet": TripletLoss,
        "semihard": SemiHardTripletLoss,
        "n-pair": NPairLoss,
        "multi-similarity": MultiSimilarityLoss,
        "tuplet-margin": TupletMarginLoss,
        "nt-xent": NTXentLoss,
        "library": LibraryLoss,
    },
)


def create(name: str, /, **settings: Any) -> Loss:
    """Make a loss by its name; settings are the arguments of its class."""
    loss: Loss = LOSSES.create(name, **settings)
    return loss


__all__ = ["LOSSES", "SEC", "ClassLoss", "DescriptorBatch", "Distillation", "Loss", "NormPenalty", "PairLoss", "create"]
