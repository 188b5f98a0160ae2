"""Parse ``--engine ray[:ENGINE] --address HOST:PORT`` into a cluster and an engine."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError, require
from patchprint.networks.engines import AUTO

if TYPE_CHECKING:
    from patchprint.interop.ray_cluster import Cluster

RAY = "ray"


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
