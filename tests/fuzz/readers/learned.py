"""Weights, checkpoints, runs and results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save as to_safetensors

from fuzz import mutators
from fuzz.mutators import Mutator, Random
from fuzz.reader import Reader
from patchprint import networks
from patchprint.common import files
from patchprint.matching.matchers.graph import read_weights
from patchprint.networks import weights
from patchprint.report import full_report, result_comparison, runs, training_page
from patchprint.training import checkpoint, resolve
from patchprint.training.config import TrainConfig, read_config
from support import graph_weights, made_runs, training_data


def small_network() -> networks.PatchNetwork:
    torch.manual_seed(0)
    return networks.create("tfeat", width=4, dim=8)


def write_weights(folder: Path) -> None:
    weights.save(small_network(), folder / "weights.safetensors")


def forge_metadata(data: bytes, random: Random) -> bytes:
    """Weights of anybody's making: the checksum is right, a value of the metadata is not."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    known = {name: json.loads(text) for name, text in header["__metadata__"].items() if name != "format"}
    changed = json.loads(mutators.json_value(json.dumps(known).encode(), random) or b"{}")
    if isinstance(changed, dict):
        header["__metadata__"] = {"format": "patchprint"} | {name: json.dumps(value) for name, value in changed.items()}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def never_deep(mutate: Mutator) -> Mutator:
    """Without documents that the mutator itself could not read again."""

    def mutated(data: bytes, random: Random) -> bytes:
        try:
            return mutate(data, random)
        except (ValueError, RecursionError):
            return mutators.flip_bits(data, random)

    return mutated


def write_published(folder: Path) -> None:
    torch.save(small_network().state_dict(), folder / "tfeat.pth")


def train_state() -> tuple[checkpoint.TrainState, TrainConfig]:
    config = resolve("tfeat", **training_data.SHORT, network_options={"width": 4, "dim": 8})
    network, loss = small_network(), training_loss()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for parameter in network.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    best = [checkpoint.Validated(5, 0.5, {"fpr95": 0.5})]
    return checkpoint.TrainState(network, loss, optimizer, None, 10, best), config


def training_loss() -> checkpoint.Loss:
    from patchprint import losses

    return losses.create("tfeat")


def write_checkpoint(folder: Path) -> None:
    checkpoint.write(folder, *train_state())


def read_checkpoint(folder: Path) -> None:
    state, config = train_state()
    checkpoint.read(checkpoint.latest(folder), state, config)


def forge_checkpoint(data: bytes, random: Random) -> bytes:
    """The header says something else, or a tensor has another shape or is gone."""
    path = Path("/dev/shm") / f"forged-{random.integers(0, 2**62)}"
    path.write_bytes(data)
    try:
        with safe_open(path, framework="pt") as stream:
            header = stream.metadata()
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    finally:
        path.unlink()
    if random.random() < 0.5:
        name = list(tensors)[random.integers(0, len(tensors))]
        value = mutators.odd_array(tensors.pop(name).numpy(), random)
        if random.random() < 0.8 and value.dtype.kind in "iufb":
            tensors[name if random.random() < 0.8 else f"optimizer.{name}"] = torch.from_numpy(
                np.ascontiguousarray(value)
            )
    else:
        name = list(header)[random.integers(0, len(header))]
        header[name] = mutators.json_value(header[name].encode(), random).decode(errors="replace")
    return to_safetensors(tensors, metadata=header)


def write_run(folder: Path) -> None:
    made_runs.write_run(folder / "run", recipe="sdgmnet", steps=4)


def read_run(folder: Path) -> None:
    training_page.training_page([runs.read_run(folder / "run")])
    TrainConfig.from_json(read_config(folder / "run" / "config.json"), str(folder / "run" / "config.json"))


def write_result(folder: Path) -> None:
    result = {
        "schema": 1, "benchmark": "oxford", "settings": {"keypoints": 10}, "model": {"name": "sift", "sha256": ""},
        "data": {"path": "oxford", "sha256": "0"}, "seed": 0, "run": {"command": "patchprint eval", "seconds": 1.0},
        "scores": {"map": 0.5, "sequences": {"graf": 0.5}},
    }  # fmt: skip
    files.write_json(folder / "a.json", result)
    files.write_json(folder / "b.json", {**result, "benchmark": "someone's"})
    files.write_json(folder / "c.json", made_runs.verification_result("ours", 0.5))


def read_result(folder: Path) -> None:
    found = result_comparison.read_results(sorted(folder.glob("*.json")))
    result_comparison.compare(found)
    full_report.whole_page(found)


READERS: dict[str, Reader] = {
    "weights": Reader(write_weights, lambda folder: weights.load_network(folder / "weights.safetensors"),
                      {"*.safetensors": mutators.BYTES}),
    "weights, forged": Reader(write_weights, lambda folder: weights.load_network(folder / "weights.safetensors"),
                              {"*.safetensors": (never_deep(forge_metadata),)}),
    "weights of a matcher": Reader(lambda folder: graph_weights.write_weights(folder / "graph.safetensors"),
                                   lambda folder: read_weights(folder / "graph.safetensors", torch.device("cpu")),
                                   {"*.safetensors": mutators.BYTES}),
    "published weights": Reader(write_published, lambda folder: weights.load_network(folder / "tfeat.pth"),
                                {"*.pth": mutators.BYTES}),
    "checkpoint": Reader(write_checkpoint, read_checkpoint,
                         {"*.safetensors": (*mutators.BYTES, *[never_deep(forge_checkpoint)] * 8)}, share=0.5),
    "run folder": Reader(write_run, read_run,
                         {"run/config.json": mutators.JSON, "run/*.jsonl": mutators.JSON_LINES, "run/*.npz": mutators.ARRAYS}),
    "result": Reader(write_result, read_result, {"*.json": mutators.JSON}),
}  # fmt: skip
