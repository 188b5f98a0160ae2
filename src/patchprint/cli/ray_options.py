"""Flags that describe, match and sfm share: how many images are worked on, here or on a Ray cluster."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError, require
from patchprint.networks.engines import AUTO

if TYPE_CHECKING:
    from patchprint.interop.ray_cluster import Cluster

RAY = "ray"


@dataclass(frozen=True, kw_only=True)
class ManyImages:
    """How a command works on many images."""

    # With --engine ray: HOST:PORT of the cluster, or auto for the one on this machine; default: a Ray of its own on this
    # machine (ray:float32 says how it is computed there).
    address: str | None = None
    # File for JSON lines with the progress.
    progress: Path | None = None
    # Replace what is there.
    force: bool = False


def where_and_how(engine: str, address: str | None) -> tuple[Cluster | None, str]:
    """Return the cluster, None for this process, and the engine that computes there: "ray" is "ray:auto"."""
    place, _, computed = engine.partition(":")
    if place != RAY:
        if address is not None:
            raise UserError("--address is the address of a cluster; give --engine ray too")
        return None, engine
    if importlib.util.find_spec("ray") is None:  # imported later, when its settings are known
        require("ray", extra="cluster")
    from patchprint.interop.ray_cluster import Cluster, check_address

    check_address(address)  # before anything is written
    return Cluster(address), computed or AUTO


def device_there(device: str, cluster: Cluster | None) -> str:
    """Resolve the device on this machine; for a cluster it is left to the nodes."""
    return str(choose_device(device)) if cluster is None else device
