"""Base class of patch networks, their registry, and the metadata of weights."""

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError
from patchprint.common.registry import LazyRegistry
from patchprint.networks.blocks import at_least_float32, create_head
from patchprint.ops.distances import pack_bits

Kind = Literal["float", "binary"]
Maps = tuple[Tensor, ...]
CHUNK_ON_CPU = 64  # patches at a time; more of them leave the cache (measured: 1.2 to 1.5 times slower at 512)
CHUNK_ON_GPU = 1024


@dataclass(frozen=True)
class TrainingRecord:
    """How weights were trained.

    Attributes:
        data: description of the training images.
        start: name of the weights that were fine-tuned, if any.
        config: all settings of the run, as ``TrainConfig.to_json`` gives them.
    """

    recipe: str = ""
    data: str = ""
    step: int = 0
    start: str = ""
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelInfo:
    """Metadata of a network and its weights.

    Attributes:
        name: of the weights, ``method`` or ``method.tag``.
        network: argument of ``networks.create`` that makes the network again, with ``options``.
        channels: 1 for patches, 3 for whole images in color.
        patch_scale: side of the square patch in units of the keypoint's scale.
        sha256: checksum of the weights (see ``weights.weights_sha256``), empty for untrained networks.
        ratio: calibrated threshold of the ratio test.
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
    """Base class of networks that compute descriptors of patches or whole images.

    Input is uint8 or float in [0, 1]; each network normalizes it. A subclass implements ``encode`` and uses
    `blocks.ViewBatchNorm2d` for batch norm. ``info`` is filled in by ``networks.create`` and ``load_network``; a network made
    by its class cannot be saved.

    Attributes:
        has_maps: whether ``forward_features`` returns maps, which L2-Net's loss needs.
        cancels_brightness: whether ``x + b`` has the descriptor of ``x``; the contrast of ``a * x`` must always cancel.

    Shape:
        forward: patches (N, C, S, S) -> descriptors (N, D) float32 of unit length; of binary networks signs / sqrt(D) in
        evaluation and unit tanh in training.
    """

    has_maps: bool = True
    cancels_brightness: bool = True

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
        """Compute what `forward_features` returns, of float patches in [0, 1]."""
        raise NotImplementedError

    def chain(self) -> list[nn.Module] | None:
        """Return the layers from float patches to raw vectors where they are a plain sequence, else None."""
        return None

    def finish(self, raw: Tensor) -> Tensor:
        """Convert raw vectors to descriptors as they are stored and matched.

        Shape:
            (N, D) -> (N, D) float32 unit vectors, or (N, D // 8) uint8 packed sign bits for binary networks.
        """
        return pack_bits(raw) if self.kind == "binary" else self.head(raw)

    def forward(self, patches: Tensor) -> Tensor:
        raw, _ = self.forward_features(patches, with_maps=False)
        return self.head(raw)

    def forward_features(self, patches: Tensor, with_maps: bool = True) -> tuple[Tensor, Maps | None]:
        """Compute raw vectors, before the head, and the maps of L2-Net's loss.

        Maps are the flattened outputs of the first and the last normalization layer, or of all with the option
        ``maps="all"``. They are large: 32768 numbers a patch for the first.

        Shape:
            patches (N, C, S, S) -> raw (N, D) float32; maps ((N, F1), ..., (N, F2)), or None without ``with_maps`` or
            ``has_maps``.
        """
        raw, maps = self.encode(self._as_float(patches), with_maps)
        return at_least_float32(raw), maps

    def describe(self, patches: Tensor, chunk: int | None = None) -> Tensor:
        """Compute descriptors in evaluation mode, ``chunk`` patches at a time; thread-safe.

        Shape:
            patches (N, C, S, S) on any device -> as `finish`, on the device of ``patches``.
        """
        return self._in_chunks(patches, chunk, self.finish)

    def raw(self, patches: Tensor, chunk: int | None = None) -> Tensor:
        """Compute raw vectors, else as `describe`: (N, C, S, S) -> (N, D) float32."""
        return self._in_chunks(patches, chunk, lambda raw: raw)

    def in_evaluation(self) -> Self:
        """Return self if all of it is in evaluation mode, else a copy that is, since other threads may be using self."""
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
        """Return groups for an optimizer: ``params``, ``lr_factor`` on the learning rate, and whether weight decay applies."""
        return [{"params": list(self.parameters()), "lr_factor": 1.0, "decays": True}]

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return next(self.parameters()).dtype

    def _as_float(self, patches: Tensor) -> Tensor:
        self.check(patches)
        return patches.float() / 255 if patches.dtype == torch.uint8 else at_least_float32(patches)

    def check(self, patches: Tensor) -> None:
        """Raise UserError for patches of the wrong shape or type."""
        channels, size = self.channels, self.input_size
        if patches.ndim != 4 or tuple(patches.shape[1:]) != (channels, size, size):
            raise UserError(f"patches must have shape (N, {channels}, {size}, {size}), got {tuple(patches.shape)}")
        if patches.dtype != torch.uint8 and not patches.is_floating_point():
            raise UserError(f"patches must be uint8 or floating point in [0, 1], got {patches.dtype}")


# Module and name, in this package, of a class or function whose arguments are the options of `create`.
NETWORKS: LazyRegistry[Callable[..., PatchNetwork]] = LazyRegistry(
    "network",
    __package__,
    {
        "hardnet": "l2net:hardnet",
        "sosnet": "l2net:SOSNet",
        "hynet": "hynet:HyNet",
        "sdgmnet": "hynet:sdgmnet",
        "l2net": "l2net:l2net",
        "l2net-cs": "wrappers:l2net_cs",
        "doap": "l2net:doap",
        "doap-binary": "l2net:doap_binary",
        "doap-st": "wrappers:doap_st",
        "tfeat": "tfeat:TFeat",
        "desdis": "desdis:DesDis",
        "strided": "desdis:strided",
        "embedding": "embedding:EmbeddingNetwork",
    },
)


def create(name: str, **options: Any) -> PatchNetwork:
    """Create a network with random weights, in training mode.

    Args:
        name: a name in ``NETWORKS``.
        **options: arguments of its entry there. All patch networks take ``dim`` and ``width`` (channels of the first layer),
            most ``dropout`` and ``kind`` ("float" or "binary"); ``embedding``, for whole images, takes a ``backbone``.
    """
    for option in ("dim", "width", "input_size"):
        size = options.get(option, 1)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise UserError(f"network {name!r}: {option} is {size!r}, which is not a whole number above 0")
    network: PatchNetwork = NETWORKS.create(name, **options)
    given = inspect.signature(NETWORKS[name]).bind(**options)
    given.apply_defaults()
    # Convolutions are 1.2 to 1.7 times faster in this layout, on the CPU and on a GPU in bfloat16.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    # All options are recorded, so that weights saved today rebuild the same network under other defaults.
    network.info = dataclasses.replace(network.info, name=name, network=name, options=dict(given.arguments))
    return network


def create_like(state: Mapping[str, Tensor], name: str, **options: Any) -> PatchNetwork:
    """Create a network for given weights; UserError where they do not fit.

    It is created without memory first, since options of a file may ask for any size.
    """
    with torch.device("meta"):
        expected = create(name, **options).state_dict()
    # Files written before PyTorch 0.4.1 do not count batches; the count plays no part in evaluation.
    missing = sorted(key for key in expected.keys() - state.keys() if not key.endswith("num_batches_tracked"))
    foreign = sorted(state.keys() - expected.keys())
    wrong = sorted(key for key in expected.keys() & state.keys() if expected[key].shape != state[key].shape)
    if missing or foreign or wrong:
        raise UserError(f"the weights do not fit network {name!r}, first at {(missing + foreign + wrong)[0]!r}")
    return create(name, **options)


def multiply_adds(network: PatchNetwork) -> int:
    """Count the multiply-adds of convolutions and linear layers for one patch."""
    from torch.utils.flop_counter import FlopCounterMode  # slow to import

    size, device = network.input_size, next(network.parameters()).device
    with FlopCounterMode(display=False) as counter:
        network.raw(torch.zeros(1, network.channels, size, size, device=device))
    return counter.get_total_flops() // 2
