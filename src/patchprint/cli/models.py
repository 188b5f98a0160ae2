"""``patchprint models``: list networks and shipped weights."""

import json
import textwrap
from collections import defaultdict
from dataclasses import asdict
from typing import Any

from patchprint.cli import emit
from patchprint.common.devices import choose_device
from patchprint.common.table import Table
from patchprint.features import list_models
from patchprint.networks import NETWORKS, ModelInfo, create, weights

_COLUMNS = 100


def main() -> None:
    """List the shipped weights and baselines with patch, size, score, speed and license, and the networks."""
    models = list_models()
    trained = [info for info in models if info.network]
    baselines = [info for info in models if not info.network]
    networks = [_network(name) for name in NETWORKS]
    answer = {
        "weights": [asdict(info) for info in trained],
        "baselines": [asdict(info) for info in baselines],
        "networks": networks,
        "measured": json.loads(weights.MEASURED.read_text(encoding="utf-8")),
    }
    parts = [_models_table(models, answer["measured"]), _notes(trained, answer["measured"]), _networks_table(networks)]
    emit(answer, "\n\n".join(parts))


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


def _models_table(models: list[ModelInfo], measured: dict[str, Any]) -> str:
    header = ("weights or baseline", "descriptor", "patch", "MB", "mAP", "patches/s", "license", "sha256")
    return Table(header, [_row(info, measured["models"].get(info.name, {})) for info in models]).to_text()


def _row(info: ModelInfo, measured: dict[str, Any]) -> tuple[str, ...]:
    """Format one model; measurements of other weights are left out."""
    numbers = measured if measured.get("sha256") == info.sha256 else {}
    speed = numbers.get("patches_per_second", {}).get(_kind_of_machine())
    file = weights.WEIGHTS_FOLDER / f"{info.name}.safetensors"
    return (
        info.name + (" (provisional)" if info.provisional else ""),
        f"{info.dim} {'bits' if info.kind == 'binary' else 'floats'}",
        f"{info.patch_scale:g} sigma" + (f", {info.input_size} px" if info.network else ""),
        f"{file.stat().st_size / 1e6:.1f}" if info.network else "-",
        f"{numbers['oxford_map']:.3f}" if "oxford_map" in numbers else "-",
        f"{speed:,}" if speed else "-",
        info.license.partition(" ")[0] or "-",
        info.sha256[:12] or "-",
    )


def _notes(trained: list[ModelInfo], measured: dict[str, Any]) -> str:
    """Explain the columns, which model to choose, and the training data."""
    if not trained:
        return "no weights are shipped; load takes files too: patchprint.load('net.safetensors')"
    machine = measured["machines"].get(_kind_of_machine())
    notes = [
        "patch: side in units of the keypoint's scale, and pixels. mAP: six Oxford sequences. patches/s: the network alone, "
        + (f"on {machine}" if machine else "not measured on a device like yours")
        + "; patchprint bench measures here.",
        "patchprint.fast and patchprint.tiny are for CPUs, sdgmnet is for ready-made patches. "
        "Images from far apart: --detector hessian-affine. --json tells more.",
    ]
    names = defaultdict(list)
    for info in trained:
        names[info.training.data].append(info.name)
    notes += [f"Training data of {', '.join(of)}: {data or 'unknown'}" for data, of in names.items()]
    return "\n".join(textwrap.fill(note, _COLUMNS, subsequent_indent="  ") for note in notes)


def _kind_of_machine() -> str:
    return "cuda" if choose_device("auto").type == "cuda" else "cpu"


def _networks_table(networks: list[dict[str, Any]]) -> str:
    header = ("network", "input", "dim", "kind", "parameters")
    rows = [
        (net["name"], f"{net['input_size']}x{net['input_size']}", net["dim"], net["kind"], net["parameters"])
        for net in networks
    ]
    return Table(header, rows).to_text()
