"""``patchprint models``: which networks there are, and which weights come with the package."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from patchprint.commands.output import emit, table
from patchprint.features import list_models
from patchprint.networks import NETWORKS, ModelInfo, create


def main(json: bool = False) -> None:
    """List the shipped weights with licence, training data, patch scale and checksum, the baselines, and the networks.

    Args:
        json: print everything that is known as JSON.
    """
    models = list_models()
    weights = [info for info in models if info.network]
    baselines = [info for info in models if not info.network]
    networks = [_network(name) for name in NETWORKS]
    text = [_weights_table([asdict(info) for info in weights]), "", _baselines_table(baselines)]
    text += ["", _networks_table(networks)]
    answer = {
        "weights": [asdict(info) for info in weights],
        "baselines": [asdict(info) for info in baselines],
        "networks": networks,
    }
    emit(answer, json, "\n".join(text))


def _network(name: str) -> dict[str, Any]:
    network = create(name)
    return {
        "name": name,
        "input_size": network.input_size,
        "dim": network.dim,
        "kind": network.kind,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "options": network.info.options,
    }


def _weights_table(weights: list[dict[str, Any]]) -> str:
    if not weights:
        return "no weights are shipped; load takes files too: patchprint.load('net.safetensors')"
    header = ("weights", "network", "dim", "kind", "patch scale", "license", "sha256", "training data")
    rows = [
        (
            info["name"] + (" (provisional)" if info["provisional"] else ""),
            info["network"],
            info["dim"],
            info["kind"],
            f"{info['patch_scale']:g}",
            info["license"],
            info["sha256"][:12],
            info["training"]["data"],
        )
        for info in weights
    ]
    return table(header, rows)


def _baselines_table(baselines: list[ModelInfo]) -> str:
    return table(("baseline", "dim", "kind"), [(info.name, info.dim, info.kind) for info in baselines])


def _networks_table(networks: list[dict[str, Any]]) -> str:
    header = ("network", "input", "dim", "kind", "parameters")
    rows = [
        (net["name"], f"{net['input_size']}x{net['input_size']}", net["dim"], net["kind"], net["parameters"])
        for net in networks
    ]
    return table(header, rows)
