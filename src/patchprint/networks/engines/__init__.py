"""Inference engines for patch networks, and the choice among them.

To add an engine, write a subclass of `Engine` or `CpuEngine` (see `pytorch`) and add it to `ENGINES`.
"""

from __future__ import annotations

import importlib.util
import os

import torch

from patchprint.common.errors import UserError, require
from patchprint.common.registry import Registry
from patchprint.networks import PatchNetwork
from patchprint.networks.engines.cuda import CudaEngine
from patchprint.networks.engines.openvino import Int8Engine, OpenVinoEngine
from patchprint.networks.engines.pytorch import BFloat16Engine, Engine, Float32Engine, multiplies_in_bfloat16

ENGINES: Registry[type[Engine]] = Registry(
    "engine",
    {
        "float32": Float32Engine,
        "bfloat16": BFloat16Engine,
        "openvino": OpenVinoEngine,
        "int8": Int8Engine,
        "cuda": CudaEngine,
    },
)
AUTO = "auto"
EXACT = "float32"  # the default of benchmarks
MANY = "int8"  # preferred by `chosen_for_many`


def create(network: PatchNetwork, name: str = AUTO) -> Engine:
    """Create the engine of a network by name, on the device of the network."""
    device = next(network.parameters()).device
    name = chosen(device) if name == AUTO else name
    check(name, device)
    return ENGINES[name](network)


def check(name: str, device: torch.device) -> None:
    """Raise UserError for an engine that is unknown, not installed, or not for a device."""
    engine = ENGINES[name]
    if device.type not in engine.devices:
        places = " or ".join(engine.devices)
        raise UserError(f"the engine {name} computes on {places}, and the model is on {device}; leave the engine out")
    require(engine.package, engine.extra)


def chosen(device: torch.device) -> str:
    """Return the engine that "auto" means on a device, always the same on the same machine.

    On a CPU it is ``PATCHPRINT_ENGINE``, else bfloat16 where the CPU multiplies in it; on NVIDIA GPUs that do so "cuda";
    elsewhere float32. Engines that compile a network are left to `chosen_for_many`.
    """
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return "cuda"
    if device.type != "cpu":
        return "float32"
    wanted = os.environ.get("PATCHPRINT_ENGINE", AUTO)
    if wanted != AUTO:
        check(wanted, device)
        return wanted
    return "bfloat16" if multiplies_in_bfloat16() else "float32"


def chosen_for_many(network: PatchNetwork) -> str:
    """Return the engine that "auto" means for many images: on a CPU "int8" where it works well, else as `chosen`."""
    device = next(network.parameters()).device
    usual = chosen(device)
    if device.type != "cpu" or "PATCHPRINT_ENGINE" in os.environ or MANY not in available(device):
        return usual
    try:
        create(network, MANY)
    except (UserError, OSError):  # it loses too much, or the disk is full
        return usual
    return MANY


def available(device: torch.device) -> list[str]:
    """Return the installed engines that compute on a device."""
    here = {name: engine.package for name, engine in ENGINES.items() if device.type in engine.devices}
    return [name for name, package in here.items() if importlib.util.find_spec(package) is not None]


__all__ = ["AUTO", "ENGINES", "EXACT", "MANY", "Engine", "available", "check", "chosen", "chosen_for_many", "create"]
