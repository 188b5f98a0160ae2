"""Checkpoints: one atomic safetensors file each, with weights, average, optimizer, loss, step, data and a checksum.

Random numbers need no state, since they are functions of the seed and the step.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import patchprint
from patchprint.common import files
from patchprint.common.errors import UserError, parsing
from patchprint.networks.weights import read_safetensors, to_bytes, weights_sha256
from patchprint.training.config import TrainConfig, differences

FORMAT = "patchprint-checkpoint-6"
REMEDY = "delete it, and --resume takes the one before it"
_KEEP = 2


@dataclass(frozen=True)
class Validated:
    """Validation of a step: what was measured, and the score that selects weights."""

    step: int
    score: float
    measured: dict[str, float]


@dataclass
class TrainState:
    """The state of a run: ``average`` of ``averaged(network)``; ``best`` validations, best first; fingerprint of the ``data``;
    number of processes that the images are ``divided_among`` (0: each holds all)."""

    network: nn.Module
    loss: nn.Module
    optimizer: torch.optim.Optimizer
    average: dict[str, Tensor] | None
    step: int = 0
    best: list[Validated] = field(default_factory=list)
    data: str = ""
    divided_among: int = 0


def averaged(network: nn.Module) -> dict[str, Tensor]:
    """Return what a weight average averages, by name: parameters and batch statistics, without counters."""
    return {name: value for name, value in network.state_dict().items() if value.is_floating_point()}


def write(folder: Path, state: TrainState, config: TrainConfig) -> Path:
    """Write the checkpoint of ``state.step`` and drop all but the newest; raises OSError where it cannot be written."""
    path = folder / f"step-{state.step:09d}.safetensors"
    header = {
        "format": FORMAT,
        "patchprint": patchprint.__version__,
        "config": json.dumps(config.to_json()),
        "step": str(state.step),
        "best": json.dumps([asdict(each) for each in state.best]),
        "data": state.data,
        "divided_among": str(state.divided_among),
    }
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in _flatten(state).items()}
    header["sha256"] = _checksum(header, tensors)
    previous = _all(folder)
    try:
        with files.atomic_file(path) as temporary:
            temporary.write_bytes(to_bytes(tensors, header))
    except OSError as error:
        kept = f"the checkpoint of step {_step_of(previous[-1])} is intact" if previous else "there is no earlier one"
        raise OSError(f"{error}; {kept}") from error
    for old in _all(folder)[:-_KEEP]:
        old.unlink(missing_ok=True)
    return path


def any_in(folder: Path) -> bool:
    """Whether there is a checkpoint to resume from."""
    return bool(_all(folder))


def latest(folder: Path) -> Path:
    """The newest checkpoint of a run folder."""
    found = _all(folder)
    if not found:
        raise UserError(f"{folder} holds no checkpoint to resume from; start again with --force")
    return found[-1]


def read(path: Path, state: TrainState, config: TrainConfig) -> None:
    """Put a checkpoint into ``state``, whose parts were created from ``config``."""
    header, tensors = _open(path)
    with parsing(path, f"a checkpoint that fits recipe {config.recipe}", REMEDY):
        _check(path, header, config)
        if header["data"] != state.data:
            raise UserError(f"{path} was learned from other data than those given; a run resumes with its own")
        divided_among = int(header.get("divided_among", 0))
        if divided_among != state.divided_among:
            raise UserError(
                f"{path} was learned from images divided among {divided_among} processes, not {state.divided_among}; "
                f"resume it with {divided_among}"
            )
        state.network.load_state_dict(_part(tensors, "network"))
        state.loss.load_state_dict(_part(tensors, "loss"))
        _load_optimizer(state.optimizer, _part(tensors, "optimizer"))
        if state.average is not None:
            for name, value in state.average.items():
                value.copy_(tensors[f"average.{name}"])
        state.step = int(header["step"])
        state.best = [_validated(each) for each in json.loads(header["best"])]
        if state.step != _step_of(path):
            raise UserError(f"{path} holds step {state.step}; {REMEDY}")


def _open(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    header, tensors = read_safetensors(path, "a checkpoint", REMEDY)
    if header.get("format") == FORMAT and header.get("sha256") != _checksum(header, tensors):
        raise UserError(f"{path} is damaged: it does not have the checksum it was written with; {REMEDY}")
    return header, tensors


def _checksum(header: dict[str, str], tensors: dict[str, Tensor]) -> str:
    text = json.dumps({name: value for name, value in header.items() if name != "sha256"}, sort_keys=True)
    return hashlib.sha256(f"{text}\n{weights_sha256(tensors)}".encode()).hexdigest()


def _check(path: Path, header: dict[str, str], config: TrainConfig) -> None:
    if header.get("format") != FORMAT:
        made_by = header.get("patchprint", "an unknown version")
        raise UserError(
            f"{path} is no checkpoint that patchprint {patchprint.__version__} reads (it is from {made_by}); "
            "train again, or resume with that version"
        )
    earlier = TrainConfig.from_json(json.loads(header["config"]), str(path))
    if earlier.recipe != config.recipe:
        raise UserError(f"{path} belongs to recipe {earlier.recipe}, not {config.recipe}")
    changed = differences(earlier, config)
    if config.steps > earlier.steps:
        changed.remove("steps")
    if changed:
        name = changed[0]
        raise UserError(
            f"{path} was made with {name} {getattr(earlier, name)!r}, not {getattr(config, name)!r}; "
            "a run resumes with its own settings, of which only steps may grow"
        )


def _flatten(state: TrainState) -> dict[str, Tensor]:
    tensors = {f"network.{name}": value for name, value in state.network.state_dict().items()}
    tensors |= {f"loss.{name}": value for name, value in state.loss.state_dict().items()}
    tensors |= {f"average.{name}": value for name, value in (state.average or {}).items()}
    for index, entries in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in entries.items() if value is not None}
    return tensors


def _validated(values: Any) -> Validated:
    found = Validated(**values)
    numbers = [found.score, *found.measured.values()]
    if not isinstance(found.step, int) or not all(isinstance(number, int | float) for number in numbers):
        raise UserError("a validation in it is not made of numbers")
    return found


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    entries: dict[int, dict[str, Any]] = {}
    parameters = [value for group in optimizer.param_groups for value in group["params"]]
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        parameter = parameters[int(index)]
        if value.numel() != 1 and value.shape != parameter.shape:
            raise UserError(f"the optimizer's {name} of parameter {index} has shape {tuple(value.shape)}")
        if value.shape == parameter.shape:
            # The fused kernels want the memory layout of the parameter, which the file does not keep.
            value = torch.empty_like(parameter, requires_grad=False).copy_(value)
        entries.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) + 1 :]: value for name, value in tensors.items() if name.startswith(f"{prefix}.")}


def _all(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.safetensors"))


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))
