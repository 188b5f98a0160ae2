"""What every patch network offers, and what is known about a set of weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.networks.heads import create_head
from patchprint.ops.distances import pack_bits

Kind = Literal["float", "binary"]
Maps = tuple[Tensor, ...]
CHUNK_ON_CPU = 64  # patches at a time; more of them leave the cache (measured: 1.2 to 1.5 times slower at 512)
CHUNK_ON_GPU = 1024


@dataclass(frozen=True)
class TrainingRecord:
    """How weights were made.

    ``recipe`` and ``config`` (all settings of the run, as ``TrainConfig.to_json`` gives them) repeat the run; ``step`` is the
    one the weights are of; ``data`` says in words what the images were; ``start`` names the weights that were tuned.
    """

    recipe: str = ""
    data: str = ""
    step: int = 0
    start: str = ""
    config: dict[str, Any] = field(default_factory=dict)

    def summary(self) -> str:
        """The run in one line, for tables."""
        try:
            return self._in_words(self.config) if self.config else self.recipe
        except (KeyError, TypeError, ValueError):  # of another version, or made up
            return self.recipe

    def _in_words(self, config: dict[str, Any]) -> str:
        whole = config["views"] == 1
        batch = f"{config['batch']} patches" if whole else f"{config['batch']} points x {config['views']} views"
        if config["batcher"] == "neighbors":
            batch += f" in runs of {config['batcher_options']['run']} neighbors"
        scale = "" if config["patch_scale"] is None else f" at {config['patch_scale']:g} sigma"
        teacher = _taught(config)
        average = f", weights averaged ({config['average']:g})" if config["average"] else ""
        return (
            f"{self.recipe}: {teacher or 'loss ' + config['loss']} on network {config['network']}, "
            f"{config['steps']:,} steps of {batch}{scale}, learning rate {config['schedule']}, "
            f"augmentation {config['augmentation']}{average}, seed {config['seed']}"
        )


def _taught(config: dict[str, Any]) -> str:
    """What a network learned by where it had a teacher, else nothing."""
    names = config.get("teacher") or ()
    if not names:
        return ""
    teachers = ", ".join(
        f"{Path(name).name} ({checksum[:8]})" for name, checksum in zip(names, config["teacher_sha256"], strict=True)
    )
    scales = config["teacher_scales"]
    sizes = f" at {', '.join(f'{scale:g}' for scale in scales)} sigma" if scales else ""
    weight = config["loss_weight"]
    beside = f" and {weight:g} times loss {config['loss']}" if weight else ""
    return f"distilled from {teachers}{sizes}{beside}"


@dataclass(frozen=True)
class ModelInfo:
    """A network and where its weights come from.

    ``name`` is the plain name of a method (our usual weights of it) or ``name.tag``; ``network`` and ``options`` rebuild the
    network with ``networks.create``; ``patch_scale`` is the side of the square patch in units of the keypoint's scale;
    ``sha256`` is the checksum of the weights (see ``weights.weights_sha256``), empty for untrained networks;
    ``ratio`` is the calibrated threshold of the ratio test, if there is one; ``channels`` is 1 for patches, 3 for networks that
    describe whole images in color.
    """

    name: str
    network: str
    options: dict[str, Any] = field(default_factory=dict)
    dim: int = 128
    kind: Kind = "float"
    input_size: int = 32
    channels: int = 1
    patch_scale: float = 12.0
    license: str = ""
    sha256: str = ""
    ratio: float | None = None
    provisional: bool = False
    training: TrainingRecord = field(default_factory=TrainingRecord)
    notes: str = ""


class PatchNetwork(nn.Module):
    """Base of all networks: patches in, descriptors out, with everything in between that a loss may want.

    Patches are (N, channels, input_size, input_size), one channel but for whole images, uint8 (divided by 255) or float
    taken as [0, 1]; each network normalises them inside. A subclass implements ``encode``. ``head`` turns raw vectors into
    descriptors. Batch norm is ``ViewBatchNorm2d`` (see ``blocks``), which keeps the views of a training batch apart.

    ``info`` says which weights these are; ``networks.create`` and ``load_network`` fill it in, a network that was made by
    its class has one that names the class only and cannot be written to a file.

    Shape:
        forward: patches (N, 1, S, S) -> descriptors (N, D) float32, unit length. Binary networks: signs / sqrt(D) in
        evaluation, unit tanh in training.
    """

    has_maps: bool = True
    """Whether ``forward_features`` gives maps, as L2-Net's loss needs them."""

    cancels_brightness: bool = True
    """Whether ``x + b`` has the descriptor of ``x``; the contrast of ``a * x`` must always cancel."""

    def __init__(self, dim: int, kind: Kind = "float", input_size: int = 32, parts: int = 1, channels: int = 1) -> None:
        super().__init__()
        self.dim = dim
        self.kind: Kind = kind
        self.input_size = input_size
        self.channels = channels
        self.head = create_head(kind, dim, parts)
        self.info = ModelInfo(
            type(self).__name__.lower(), network="", dim=dim, kind=kind, input_size=input_size, channels=channels
        )

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        """From float patches in [0, 1] to raw vectors, and maps as ``forward_features`` describes them.

        Shape:
            patches (N, 1, S, S) -> raw (N, D); maps ((N, F1), ..., (N, F2)), or None without ``with_maps`` or ``has_maps``.
        """
        raise NotImplementedError

    def chain(self) -> list[nn.Module] | None:
        """The layers between float patches and raw vectors, where each takes what the one before it gives; else None."""
        return None

    def finish(self, raw: Tensor) -> Tensor:
        """What is stored and matched, of raw vectors.

        Shape:
            (N, D) -> (N, D) float32 unit vectors, or (N, D // 8) uint8 packed sign bits for binary networks.
        """
        return pack_bits(raw) if self.kind == "binary" else self.head(raw)

    def forward(self, patches: Tensor) -> Tensor:
        raw, _ = self.forward_features(patches, with_maps=False)
        return self.head(raw)

    def forward_features(self, patches: Tensor, with_maps: bool = True) -> tuple[Tensor, Maps | None]:
        """Raw vectors before normalisation (``head`` makes descriptors of them) and L2-Net's maps.

        Shape:
            patches (N, 1, S, S) -> raw (N, D) float32; maps: (first (N, F1), last (N, F2)), the outputs of the first
            and the last normalisation layer before any activation, flattened (all of them where the network has the
            option ``maps="all"``), or None for networks without such layers (``has_maps``) and with
            ``with_maps=False`` (the first map is large: 32768 numbers a patch).
        """
        raw, maps = self.encode(self._as_float(patches), with_maps)
        return raw if raw.dtype == torch.float64 else raw.float(), maps

    def describe(self, patches: Tensor, chunk: int | None = None) -> Tensor:
        """Descriptors for storing and matching, in evaluation mode, ``chunk`` patches at a time; safe from several threads.

        By default `CHUNK_ON_CPU` or `CHUNK_ON_GPU` by the device of the network.

        Shape:
            patches (N, 1, S, S) on any device -> (N, D) float32 unit vectors, or (N, D // 8) uint8 packed sign bits
            for binary networks, on the device of ``patches``.
        """
        return self._in_chunks(patches, chunk, self.finish)

    def raw(self, patches: Tensor, chunk: int | None = None) -> Tensor:
        """The vectors before ``head``, whose norms tell something, else as `describe`.

        Shape:
            patches (N, C, S, S) on any device -> (N, D) float32, on the device of ``patches``.
        """
        return self._in_chunks(patches, chunk, lambda raw: raw)

    def in_evaluation(self) -> Self:
        """Itself where all of it is in evaluation mode, else a copy that is: its mode stays, since others may be using it."""
        return copy.deepcopy(self).eval() if any(module.training for module in self.modules()) else self

    @torch.no_grad()
    def _in_chunks(self, patches: Tensor, chunk: int | None, finish: Callable[[Tensor], Tensor]) -> Tensor:
        self.check(patches)
        device, network = next(self.parameters()).device, self.in_evaluation()
        chunk = chunk or (CHUNK_ON_CPU if device.type == "cpu" else CHUNK_ON_GPU)
        # An empty batch has a width too.
        return torch.cat(
            [
                finish(network.forward_features(part.to(device), with_maps=False)[0]).to(patches.device)
                for part in patches.split(chunk)
            ]
        )

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Groups for an optimiser: ``params``, ``lr_factor``, by which the learning rate is to be multiplied, and ``decays``,
        whether weight decay applies."""
        return [{"params": list(self.parameters()), "lr_factor": 1.0, "decays": True}]

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return next(self.parameters()).dtype

    def _as_float(self, patches: Tensor) -> Tensor:
        self.check(patches)
        if patches.dtype == torch.uint8:
            return patches.float() / 255
        return patches if patches.dtype == torch.float64 else patches.float()

    def check(self, patches: Tensor) -> None:
        """Raise UserError where ``patches`` are not of the shape and type that the network takes."""
        channels, size = self.channels, self.input_size
        if patches.ndim != 4 or tuple(patches.shape[1:]) != (channels, size, size):
            raise UserError(f"patches must have shape (N, {channels}, {size}, {size}), got {tuple(patches.shape)}")
        if patches.dtype != torch.uint8 and not patches.is_floating_point():
            raise UserError(f"patches must be uint8 or floating point in [0, 1], got {patches.dtype}")
