"""What a training run is made of: one flat, typed record, written beside every run and into every weight file."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from patchprint.errors import UserError

Batcher = Literal["pairs", "neighbors", "progressive", "groups", "sequence-pairs"]
Optimizer = Literal["sgd", "adam"]
Schedule = Literal["constant", "linear", "drops", "cosine"]
Precision = Literal["auto", "bf16", "float32", "float64"]
Acceleration = Literal["auto", "eager", "compile", "graph"]


@dataclass(frozen=True)
class TrainConfig:
    """A resolved run. Lengths inside a run (drops, warm-up) are fractions of it, so that ``steps`` rescales all of them.

    ``batch`` counts points over all processes; with ``views`` patches of each, a step sees ``batch * views`` patches.
    Where ``lr_for_patches`` is not 0, ``lr`` belongs to a batch of that many patches and scales with its size.
    """

    recipe: str
    network: str
    loss: str
    network_options: dict[str, Any] = field(default_factory=dict)
    loss_settings: dict[str, Any] = field(default_factory=dict)
    sec: float = 0.0
    # What a step sees.
    data: tuple[str, ...] = ()
    patch_scale: float | None = None
    batcher: Batcher = "pairs"
    batch: int = 1024
    views: int = 2
    batcher_options: dict[str, Any] = field(default_factory=dict)
    augmentation: str = "none"
    separate_views: bool = True
    # How the weights move.
    steps: int = 200_000
    optimizer: Optimizer = "sgd"
    lr: float = 1.0
    lr_for_patches: int = 0
    momentum: float = 0.9
    dampening: float = 0.0
    weight_decay: float = 0.0
    schedule: Schedule = "constant"
    drop_every: float = 0.1
    drop_factor: float = 0.5
    final_lr: float = 0.0
    average: float = 0.0
    # Where it starts.
    seed: int = 0
    init: str | None = None
    freeze: tuple[str, ...] = ()
    # What is written, and when.
    log_every: int = 100
    validate_every: int = 1000
    checkpoint_every: int = 1000
    validation_pairs: int = 10_000
    select_on_test: tuple[str, ...] = ()
    tensorboard: bool = True
    # How it runs.
    device: str = "auto"
    precision: Precision = "auto"
    acceleration: Acceleration = "auto"
    deterministic: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "log_every", "validate_every", "checkpoint_every", "validation_pairs"):
            if getattr(self, name) < 1:
                raise UserError(f"{_flag(name)} is {getattr(self, name)}; it must be at least 1")
        if self.views < 2:
            raise UserError(f"--views is {self.views}; a point needs at least 2 views to have a positive")
        for name in ("lr", "weight_decay", "sec"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise UserError(f"{_flag(name)} is {value}; it must be a number that is not negative")
        if not 0 <= self.average < 1:
            raise UserError(f"--average is {self.average}; the decay of the weight average lies in [0, 1)")

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and strings; ``from_json`` gives back an equal config."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @staticmethod
    def from_json(values: dict[str, Any], where: str = "config") -> TrainConfig:
        """Read what ``to_json`` wrote; unknown names and wrong types raise ValueError naming ``where``."""
        missing = [name for name in ("recipe", "network", "loss") if name not in values]
        if missing:
            raise UserError(f"{where} lacks {missing[0]!r}")
        return TrainConfig(**checked(values, where))


def checked(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Fields of a TrainConfig out of JSON: names known, types right, lists as tuples."""
    known = typing.get_type_hints(TrainConfig)
    result = {}
    for name, value in values.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            raise UserError(f"{where} has no setting {name!r}; {hint}")
        if isinstance(value, list):
            value = tuple(value)
        if isinstance(value, int) and not isinstance(value, bool) and known[name] is float:
            value = float(value)
        if not _fits(value, known[name]):
            raise UserError(f"{where}: {name} is {value!r}, which is not {_describe(known[name])}")
        result[name] = value
    return result


def differences(one: TrainConfig, other: TrainConfig) -> list[str]:
    """Names of the settings in which two configs differ, those that only say what is written or where left out."""
    harmless = {"data", "device", "log_every", "validate_every", "checkpoint_every", "tensorboard", "acceleration"}
    names = [item.name for item in dataclasses.fields(TrainConfig) if item.name not in harmless]
    return [name for name in names if getattr(one, name) != getattr(other, name)]


def read_config(path: str | Path) -> dict[str, Any]:
    """The JSON object in a file; ValueError where there is none."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no JSON object")
    return values


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _fits(value: Any, kind: Any) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return value in arguments
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, argument) for argument in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(isinstance(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _describe(kind: Any) -> str:
    if typing.get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, typing.get_args(kind)))}"
    return getattr(kind, "__name__", str(kind))
