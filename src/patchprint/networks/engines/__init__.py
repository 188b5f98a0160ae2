"""Engines, which compute descriptors of patches: base classes, those of PyTorch itself, and the choice among all.

An engine that needs more is a file here, which assigns a subclass of `Engine` or `CpuEngine` to ``engine``; the file's name is
its name.
"""

import contextlib
import copy
import importlib.util
import itertools
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from patchprint.common.devices import parallel_map
from patchprint.common.errors import UserError, require
from patchprint.common.registry import FileRegistry
from patchprint.networks import PatchNetwork
from patchprint.networks.network import CHUNK_ON_CPU

AUTO = "auto"
EXACT = "float32"  # the default of benchmarks
FASTEST = "int8"  # on a CPU
Compute = Callable[[Tensor], Tensor]


class Engine(ABC):
    """Computes the descriptors of a network.

    Attributes:
        name: by which it was created.
        package: the package that it needs.
        extra: our extra that installs the package.
        devices: kinds of devices that it computes on.
    """

    name: str
    package: ClassVar[str] = "torch"
    extra: ClassVar[str] = ""
    devices: ClassVar[tuple[str, ...]]

    def __init__(self, network: PatchNetwork) -> None:
        self.finish = network.finish

    @abstractmethod
    def describe(self, patches: Tensor) -> Tensor:
        """Compute descriptors on the CPU; thread-safe.

        Shape:
            patches (N, 1, S, S) uint8 or float in [0, 1], N at least 1 -> as `PatchNetwork.finish`.
        """

    def describe_cut(self, cuts: Sequence[Callable[[], Tensor]]) -> Tensor:
        """Compute descriptors of lazily sampled chunks of `CHUNK_ON_CPU` patches; the last may have fewer."""
        return torch.cat([self.describe(cut()) for cut in cuts])


class CpuEngine(Engine):
    """Engine that divides chunks among the cores."""

    devices: ClassVar[tuple[str, ...]] = ("cpu",)

    @abstractmethod
    def session(self) -> contextlib.AbstractContextManager[Compute]:
        """Open a function from at most `CHUNK_ON_CPU` patches to raw vectors (N, D) float32, for one thread."""

    def describe(self, patches: Tensor) -> Tensor:
        return self.finish(self.raw(patches))

    @torch.no_grad()
    def raw(self, patches: Tensor) -> Tensor:
        """Compute raw vectors, (N, 1, S, S) -> (N, D) float32, N at least 1."""
        rows = _Rows(self, [partial(torch.Tensor.cpu, part) for part in patches.split(CHUNK_ON_CPU)])
        parallel_map(rows.in_session, rows.chunks)
        return rows.found()

    def describe_cut(self, cuts: Sequence[Callable[[], Tensor]]) -> Tensor:
        # A core samples patches and computes them before it takes the next ones: they are in its cache.
        rows = _Rows(self, cuts)
        parallel_map(rows.in_session, rows.chunks)
        return self.finish(rows.found())


class _Rows:
    """Rows of one tensor, which threads compute in chunks of `CHUNK_ON_CPU`.

    A small result of each chunk, between the freed memory of patches, would keep most of that from being used again, 20 KB for
    each patch.
    """

    def __init__(self, engine: CpuEngine, cuts: Sequence[Callable[[], Tensor]]) -> None:
        self.chunks = list(enumerate(cuts))
        self._engine, self._lock = engine, threading.Lock()
        self._all: Tensor | None = None
        self._count = 0

    @contextlib.contextmanager
    def in_session(self) -> Iterator[Callable[[tuple[int, Callable[[], Tensor]]], None]]:
        with torch.no_grad(), self._engine.session() as compute:  # PyTorch keeps both for each thread
            yield lambda cut: self.put(cut[0], compute(cut[1]()))

    def put(self, number: int, values: Tensor) -> None:
        with self._lock:
            if self._all is None:
                self._all = values.new_empty(len(self.chunks) * CHUNK_ON_CPU, *values.shape[1:])
            self._count += len(values)
        start = number * CHUNK_ON_CPU
        self._all[start : start + len(values)] = values

    def found(self) -> Tensor:
        assert self._all is not None
        return self._all[: self._count]


class Float32Engine(CpuEngine):
    """The network itself, the reference for all other engines: a patch has the same bits alone and in a batch."""

    devices = ("cpu", "cuda", "mps")

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__(network)
        self.network = network

    def raw(self, patches: Tensor) -> Tensor:
        if next(self.network.parameters()).device.type == "cpu":
            return super().raw(patches)
        # Convolutions on NVIDIA GPUs drop bits of float32 by default.
        before, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
        try:
            return self.network.raw(patches).cpu()
        finally:
            torch.backends.cudnn.allow_tf32 = before

    @contextlib.contextmanager
    def session(self) -> Iterator[Compute]:
        network = self.network.in_evaluation()

        def compute(patches: Tensor) -> Tensor:
            # PyTorch takes another way for a single one, with other last digits.
            several = patches if len(patches) > 1 else patches.expand(2, -1, -1, -1)
            return network.forward_features(several, with_maps=False)[0][: len(patches)]

        yield compute


class BFloat16Engine(CpuEngine):
    """A copy with batch norms folded into convolutions, channels last, computed in bfloat16.

    Sums, FRN and the last norm are in float32. Components of descriptors differ from float32 by at most 0.01.
    """

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__(network)
        self.network = inference_copy(network)

    @contextlib.contextmanager
    def session(self) -> Iterator[Compute]:
        with torch.autocast("cpu", torch.bfloat16):  # rounds weights once while it is open
            yield lambda patches: self.network.forward_features(patches, with_maps=False)[0]


ENGINES: FileRegistry[type[Engine]] = FileRegistry(
    "engine", __name__, __path__, "engine", entries={"float32": Float32Engine, "bfloat16": BFloat16Engine}
)


def create(network: PatchNetwork, name: str = AUTO) -> Engine:
    """Create the engine of a network by name, on the device of the network."""
    device = next(network.parameters()).device
    wanted = chosen(device) if name == AUTO else name
    check(wanted, device)
    try:
        engine = ENGINES[wanted](network)
    except UserError:  # the network loses too much in 8 bits
        if name != AUTO or "PATCHPRINT_ENGINE" in os.environ:
            raise
        wanted = unprepared(device)
        engine = ENGINES[wanted](network)
    engine.name = wanted
    return engine


def check(name: str, device: torch.device) -> None:
    """Raise UserError for an engine that is unknown, not installed, or not for a device."""
    engine = ENGINES[name]
    if device.type not in engine.devices:
        places = " or ".join(engine.devices)
        raise UserError(f"the engine {name} computes on {places}, and the model is on {device}; leave the engine out")
    require(engine.package, engine.extra)


def chosen(device: torch.device) -> str:
    """Return the engine that "auto" means on a device, always the same on the same machine.

    On a CPU it is ``PATCHPRINT_ENGINE``, else int8 where OpenVINO is installed, for networks that lose nothing by it. It is
    prepared once on a machine, which takes seconds. Elsewhere it is that of `unprepared`.
    """
    if device.type != "cpu":
        return unprepared(device)
    wanted = os.environ.get("PATCHPRINT_ENGINE", AUTO)
    if wanted != AUTO:
        check(wanted, device)
        return wanted
    return FASTEST if is_installed(FASTEST) else unprepared(device)


def unprepared(device: torch.device) -> str:
    """Return the fastest engine of a device that needs no preparation: cuda or bfloat16 where that is fast, else float32."""
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return "cuda"
    return "bfloat16" if device.type == "cpu" and multiplies_in_bfloat16() else "float32"


def available(device: torch.device) -> list[str]:
    """Return the installed engines that compute on a device."""
    return [name for name, engine in ENGINES.items() if device.type in engine.devices and is_installed(name)]


def is_installed(name: str) -> bool:
    """Whether the package of an engine is there."""
    return importlib.util.find_spec(ENGINES[name].package) is not None


def inference_copy(network: PatchNetwork) -> PatchNetwork:
    """Return a faster copy for inference: batch norms folded except the last, no dropout, channels last."""
    copied = copy.deepcopy(network).eval()
    for layers in [module for module in copied.modules() if isinstance(module, nn.Sequential)]:
        for index, (layer, following) in enumerate(itertools.pairwise(layers)):
            is_last = index + 2 == len(layers)  # the last norm works in float32
            if type(layer) is nn.Conv2d and isinstance(following, nn.BatchNorm2d) and not is_last:
                layers[index], layers[index + 1] = fuse_conv_bn_eval(layer, following), nn.Identity()
    for weight in copied.parameters():
        if weight.ndim == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    return copied.eval()  # the new layers too: else `in_evaluation` would copy for every chunk


def multiplies_in_bfloat16() -> bool:
    """Whether this CPU does, and PyTorch's convolutions may use it (``ONEDNN_MAX_CPU_ISA`` can forbid it)."""
    if not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()):
        return False
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
