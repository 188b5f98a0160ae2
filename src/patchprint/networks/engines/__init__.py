"""Inference engines for patch networks, chosen by what the machine has.

``create`` gives the engine of a name, or with "auto" the one that `chosen` names. To add one: a file with a class that has
`Engine`'s method (of the CPU: `CpuEngine`'s), and a line in `ENGINES`.
"""

from __future__ import annotations

import importlib.util
import os

import torch

from patchprint.common.errors import UserError
from patchprint.common.optional import require
from patchprint.common.registry import Registry
from patchprint.networks import PatchNetwork
from patchprint.networks.engines._engine import Engine
from patchprint.networks.engines.cuda import CudaEngine
from patchprint.networks.engines.openvino import Int8Engine, OpenVinoEngine
from patchprint.networks.engines.pytorch import BFloat16Engine, Float32Engine, multiplies_in_bfloat16

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
EXACT = "float32"  # the network itself, which benchmarks score unless asked otherwise
MANY = "int8"  # what `chosen_for_many` takes where it can


def create(network: PatchNetwork, name: str = AUTO) -> Engine:
    """The engine of ``name`` for a network, which stays where it is."""
    device = next(network.parameters()).device
    if name == AUTO:
        name = chosen(device)
    check(name, device)
    return ENGINES[name](network)


def check(name: str, device: torch.device) -> None:
    """Raise UserError where an engine is not known, not installed, or cannot be used on a device."""
    engine = ENGINES[name]
    if device.type not in engine.devices:
        places = " or ".join(engine.devices)
        raise UserError(f"the engine {name} computes on {places}, and the model is on {device}; leave the engine out")
    require(engine.package, engine.extra)


def chosen(device: torch.device) -> str:
    """What "auto" means on a device: always the same on the same machine, whatever else runs there.

    On the CPU what ``PATCHPRINT_ENGINE`` names, else bfloat16 where the processor multiplies in it; on NVIDIA GPUs that do so
    "cuda"; elsewhere float32. The engines that first have to export and compile a network are left to `chosen_for_many`: few
    images would wait for that.
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
    """What "auto" means for work of minutes, where some seconds to prepare an engine do not count.

    On the CPU "int8" where OpenVINO is installed and the network loses little by it; else the same as `chosen`.
    """
    device = next(network.parameters()).device
    usual = chosen(device)
    if device.type != "cpu" or "PATCHPRINT_ENGINE" in os.environ or MANY not in available(device):
        return usual
    try:
        create(network, MANY)
    except (UserError, OSError):  # it loses too much, or cannot be made, as on a full disk
        return usual
    return MANY


def available(device: torch.device) -> list[str]:
    """Engines that compute on a device and whose packages are installed."""
    here = [name for name, engine in ENGINES.items() if device.type in engine.devices]
    return [name for name in here if importlib.util.find_spec(ENGINES[name].package) is not None]


__all__ = ["AUTO", "ENGINES", "EXACT", "MANY", "Engine", "available", "check", "chosen", "chosen_for_many", "create"]
