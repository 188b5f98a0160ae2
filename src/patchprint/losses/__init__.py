"""Objectives: each takes a DescriptorBatch and returns a dict with ``total`` and named parts for the log."""

from __future__ import annotations

import inspect
from typing import Any

from patchprint.losses.base import Loss, PairLoss
from patchprint.losses.hardnet import HardNet
from patchprint.losses.sdgm import SDGM

LOSSES: dict[str, type[Loss]] = {
    "hardnet": HardNet,
    "sdgm": SDGM,
}


def create(name: str, **settings: Any) -> Loss:
    """Make a loss by its name; settings are the arguments of its class."""
    if name not in LOSSES:
        raise ValueError(f"unknown loss {name!r}; there are {', '.join(sorted(LOSSES))}")
    known = inspect.signature(LOSSES[name]).parameters
    for setting in settings:
        if setting not in known:
            raise ValueError(f"loss {name!r} has no setting {setting!r}; there are {', '.join(known) or 'none'}")
    return LOSSES[name](**settings)


__all__ = ["LOSSES", "SDGM", "HardNet", "Loss", "PairLoss", "create"]
