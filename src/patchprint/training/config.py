"""TrainConfig: all settings of a training run, saved beside the run and in its weight files."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from patchprint.common.errors import UserError, parsing, suggest
from patchprint.common.safe_io import read_json
from patchprint.data.manifest import LARGEST_SCALE

Optimizer = Literal["sgd", "adam", "adamw"]
Schedule = Literal["constant", "linear", "drops", "cosine", "one-cycle"]
Precision = Literal["auto", "bf16", "float32", "float64"]
Acceleration = Literal["auto", "eager", "compile", "record", "graph"]

# Settings with a flag of their own on the command line; --config and --set reach the others.
FLAGS = (
    "data", "network", "network_options", "loss", "loss_settings", "sec", "teacher", "patch_scale", "batcher",
    "batcher_options", "batch", "views", "augmentation", "steps", "optimizer", "lr", "weight_decay", "schedule", "average",
    "seed", "init", "freeze", "validate_every", "keep_best", "select_on_test", "device", "precision", "divide_photos",
    "deterministic",
)  # fmt: skip

# Settings of earlier versions, and the value that files may still name.
_RETIRED: dict[str, Any] = {"teacher_scales": [], "teacher_light": True, "teacher_jitter": True}


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run. Drops and warm-up are fractions of the run, so that ``steps`` rescales them.

    ``batch`` counts points over all processes; with ``views`` patches of each, a step sees ``batch * views`` patches.
    Batchers of whole groups have ``views`` 1: there ``batch`` counts patches, and a point has all of its own in the batch.
    Where ``lr_for_patches`` is not 0, ``lr`` belongs to a batch of that many patches and scales with its size.

    The text beside a type is the help of its flag: the command line is made from these fields.
    """

    recipe: Annotated[str, "what the settings started from"]
    network: Annotated[str, "network that learns"]
    loss: Annotated[str, "what it learns by"]
    network_options: Annotated[dict[str, Any], "options of the network, like width=16"] = field(default_factory=dict)
    loss_settings: Annotated[dict[str, Any], "settings of the loss, like margin=0.5"] = field(default_factory=dict)
    sec: Annotated[float, "weight of the spherical embedding constraint; 0 leaves it out"] = 0.0
    sec_momentum: Annotated[float, "how fast the mean norm of the constraint follows the batches"] = 1.0
    norm_penalty: Annotated[float, "weight of the mean squared norm, in place of the constraint; 0 leaves it out"] = 0.0
    ranking: Annotated[float, "weight of the average precision of all matches of a batch, ranked together"] = 0.0
    # Who teaches, beside the loss or in its place.
    teacher: Annotated[tuple[str, ...], "weights to distill from, by name or file; of several, mean similarity"] = ()
    teacher_cosine: Annotated[float, "weight of 1 - cosine to the teacher; falls away where dimensions differ"] = 1.0
    teacher_similarity: Annotated[float, "weight of the squared difference to the teacher's similarities"] = 4.0
    teacher_sha256: Annotated[tuple[str, ...], "checksums of the teacher's weights; a run fills them in"] = ()
    loss_weight: Annotated[float, "weight of the loss beside a teacher; 0: the teacher alone, no labels needed"] = 1.0
    # What a step sees.
    data: Annotated[tuple[str, ...], "stores to learn from (patchprint data build makes them)"] = ()
    patch_scale: Annotated[float | None, "side of patches cut from images, in sigma; if not given, of the store"] = None
    batcher: Annotated[str, "which points make a batch; empty where batches hold no points"] = "pairs"
    batch: Annotated[int, "points in a batch, over all processes; in batches of whole groups, patches"] = 1024
    views: Annotated[int, "patches of each point in a batch; 1 in batches of whole groups"] = 2
    batcher_options: Annotated[dict[str, Any], "options of the batcher, like run=128"] = field(default_factory=dict)
    augmentation: Annotated[str, "random changes of the patches"] = "none"
    separate_views: Annotated[bool, "batch statistics of each view apart, not of all patches together"] = True
    # How the weights move.
    steps: Annotated[int, "length of the run; schedule, warm-up and moving averages follow it"] = 200_000
    optimizer: Annotated[Optimizer, "the optimizer"] = "sgd"
    lr: Annotated[float, "learning rate at the start; schedule one-cycle: at its highest"] = 1.0
    lr_for_patches: Annotated[int, "patches in the batch that lr belongs to, it scales with other batches; 0: any"] = 0
    momentum: Annotated[float, "momentum of sgd"] = 0.9
    dampening: Annotated[float, "dampening of the momentum of sgd"] = 0.0
    weight_decay: Annotated[float, "weight decay"] = 0.0
    schedule: Annotated[Schedule, "how the learning rate falls"] = "constant"
    warm_up: Annotated[float, "part of the run in which the learning rate rises to that of the schedule"] = 0.0
    drop_every: Annotated[float, "schedule drops: part of the run between two drops"] = 0.1
    first_drop: Annotated[float | None, "schedule drops: part of the run before the first drop"] = None
    drop_factor: Annotated[float, "schedule drops: what a drop multiplies the rate by"] = 0.5
    final_lr: Annotated[float, "schedules linear, cosine and one-cycle: learning rate at the end"] = 0.0
    average: Annotated[float, "decay of a running average of the weights, which is judged and saved; 0: none"] = 0.0
    # Where it starts.
    seed: Annotated[int, "seed of everything random"] = 0
    init: Annotated[str | None, "weights to start from: name, file, random, or imagenet (whole images)"] = None
    freeze: Annotated[tuple[str, ...], "layers that do not learn, like layer1 or features.0"] = ()
    # What is written, and when.
    log_every: Annotated[int, "steps between lines of metrics.jsonl"] = 100
    validate_every: Annotated[int, "steps between validations, which choose the best weights"] = 1000
    checkpoint_every: Annotated[int, "steps between checkpoints"] = 1000
    validation_pairs: Annotated[int, "pairs of held-out patches in a validation; for whole images, images"] = 10_000
    keep_best: Annotated[int, "how many of the best weights are kept; the outcome has their mean and spread"] = 1
    hold_out: Annotated[bool, "choose weights on the validation part; without it the last are taken"] = True
    select_on_test: Annotated[
        tuple[str, ...], "choose the best weights by FPR95 on these test sets, as the papers did: no fair result then"
    ] = ()
    watch: Annotated[int, "samples whose norm before normalization is logged in each line"] = 0
    tensorboard: Annotated[bool, "write events for TensorBoard, where it is installed"] = True
    # How it runs.
    device: Annotated[str, "cpu, cuda, mps or auto"] = "auto"
    precision: Annotated[Precision, "precision of the network; the loss is computed in float32 at least"] = "auto"
    acceleration: Annotated[Acceleration, "eager, compiled, recorded as a CUDA graph, or both (graph)"] = "auto"
    divide_photos: Annotated[bool, "of several processes each holds a share of the images, cuts for all"] = False
    deterministic: Annotated[bool, "the same bits in every run on this machine (always so on a CPU)"] = False

    def __post_init__(self) -> None:
        intervals = ("log_every", "validate_every", "checkpoint_every")
        for name in ("steps", "batch", "views", "validation_pairs", "keep_best", *intervals):
            if getattr(self, name) < 1:
                raise UserError(f"{flag(name)} is {getattr(self, name)}; it must be at least 1")
        if self.batch == 1 and self.batcher:
            raise UserError("--batch is 1; give at least 2, since a point is told apart from the others of its batch")
        weights = ("sec", "norm_penalty", "ranking", "teacher_cosine", "teacher_similarity", "loss_weight")
        for name in ("lr", "weight_decay", "watch", *weights):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise UserError(f"{flag(name)} is {value}; it must be a number that is not negative")
        if self.patch_scale is not None and not 0 < self.patch_scale <= LARGEST_SCALE:
            raise UserError(f"--patch-scale is {self.patch_scale:g}; it must be above 0, and at most {LARGEST_SCALE:g}")
        if not 0 < self.sec_momentum <= 1:
            raise UserError(f"sec_momentum is {self.sec_momentum}; it lies above 0 and is at most 1, the batch alone")
        for name in ("warm_up", "average"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"{flag(name)} is {getattr(self, name)}; it must be at least 0 and below 1")
        if self.sec and self.norm_penalty:
            raise UserError("--sec and norm_penalty exclude each other; give one of them, the other as 0")
        if self.teacher and not (self.teacher_cosine or self.teacher_similarity):
            raise UserError("teacher_cosine and teacher_similarity are 0, so that --teacher teaches nothing")
        if not self.teacher and self.loss_weight != 1:
            raise UserError("loss_weight is for distillation; give --teacher WEIGHTS too")

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and strings; ``from_json`` gives back an equal config."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @staticmethod
    def from_json(values: dict[str, Any], where: str = "config") -> TrainConfig:
        """Read what ``to_json`` wrote; unknown names and wrong types raise UserError naming ``where``."""
        if not isinstance(values, dict):
            raise UserError(f"{where} holds no settings")
        missing = [name for name in ("recipe", "network", "loss") if name not in values]
        if missing:
            raise UserError(f"{where} lacks {missing[0]!r}")
        with parsing(where, "settings of a training"):
            return TrainConfig(**checked(values, where))


def checked(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Check names and types of settings from JSON; lists become tuples."""
    known = typing.get_type_hints(TrainConfig)
    result = {}
    for name, value in values.items():
        if name in _RETIRED and value == _RETIRED[name]:
            continue
        if name not in known:
            raise UserError(f"{where} has no setting {name!r}; {suggest(name, known)}")
        if isinstance(value, list):
            value = tuple(value)
        if isinstance(value, int) and not isinstance(value, bool) and known[name] is float:
            value = float(value)
        if not _fits(value, known[name]):
            raise UserError(f"{where}: {name} is {value!r}, which is not {_describe(known[name])}")
        result[name] = value
    return result


def differences(one: TrainConfig, other: TrainConfig) -> list[str]:
    """Return the names of the settings in which two runs differ, without those of output and place."""
    # The file of a teacher may have moved; its checksum is compared.
    harmless = {"data", "teacher", "device", "log_every", "validate_every", "checkpoint_every", "tensorboard"}
    harmless |= {"acceleration", "watch"}
    names = [item.name for item in dataclasses.fields(TrainConfig) if item.name not in harmless]
    return [name for name in names if getattr(one, name) != getattr(other, name)]


def read_config(path: str | Path) -> dict[str, Any]:
    """Read the settings in a JSON or TOML file."""
    if Path(path).suffix != ".toml":
        return read_json(path, "a JSON file with settings")
    if not Path(path).is_file():
        raise UserError(f"{path} is not there, or a folder; expected a TOML file with settings")
    with parsing(path, "TOML"):
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))


def flag(name: str) -> str:
    """Return the flag of a setting, or its name where it has none. Choosing on test data is spelled out as a warning."""
    if name not in FLAGS:
        return name
    return "--" + ("select-on-test-as-the-papers-did" if name == "select_on_test" else name.replace("_", "-"))


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
