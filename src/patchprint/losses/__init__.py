"""Objectives: each takes a DescriptorBatch and returns a dict with ``total`` and named parts for the log."""

from __future__ import annotations

import inspect
from typing import Any

from patchprint.errors import UserError
from patchprint.losses.base import Loss, PairLoss
from patchprint.losses.cdf import CDF
from patchprint.losses.doap import DOAP, BinaryDOAP
from patchprint.losses.exp_tl import ExpTLSurrogate
from patchprint.losses.hardnet import HardNet
from patchprint.losses.hynet import HyNet
from patchprint.losses.l2net import L2Net
from patchprint.losses.scale_aware import ScaleAware
from patchprint.losses.sdgm import SDGM
from patchprint.losses.sec import SEC, NormPenalty
from patchprint.losses.sosnet import SOSNet
from patchprint.losses.tfeat import TFeat

LOSSES: dict[str, type[Loss]] = {
    "l2net": L2Net,
    "doap": DOAP,
    "doap-binary": BinaryDOAP,
    "hardnet": HardNet,
    "sosnet": SOSNet,
    "hynet": HyNet,
    "sdgm": SDGM,
    "cdf": CDF,
    "scale-aware": ScaleAware,
    "tfeat": TFeat,
    "exp-tl": ExpTLSurrogate,
}


def create(name: str, **settings: Any) -> Loss:
    """Make a loss by its name; settings are the arguments of its class."""
    if name not in LOSSES:
        raise UserError(f"unknown loss {name!r}; there are {', '.join(LOSSES)}")
    known = inspect.signature(LOSSES[name]).parameters
    for setting in settings:
        if setting not in known:
            raise UserError(f"loss {name!r} has no setting {setting!r}; there are {', '.join(known)}")
    return LOSSES[name](**settings)


__all__ = ["LOSSES", "SEC", "Loss", "NormPenalty", "PairLoss", "create"]
