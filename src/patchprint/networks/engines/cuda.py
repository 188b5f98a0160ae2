"""Engine for NVIDIA GPUs: bfloat16, one kernel for each layer, and chunks computed by replayed CUDA graphs."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchprint.common.devices import Recording, supports_triton
from patchprint.networks import PatchNetwork, fast_layers
from patchprint.networks.blocks import Fovea, PatchStandardization
from patchprint.networks.engines import Engine, inference_copy
from patchprint.networks.hynet import TLU, FilterResponseNorm2d

if TYPE_CHECKING:
    from patchprint.networks.engines._cuda_kernels import Entry, Layer

# Sizes of recorded chunks, which smaller ones are padded to.
CHUNKS = (64, 512, 2048, 4096)
_FEWEST_INPUTS = 16  # channels that tensor cores multiply by; fewer are padded with zeros
_ON_DEVICE = 1 << 16  # patches copied to the device at a time


class CudaEngine(Engine):
    """Engine whose descriptors differ from float32 by at most 0.01 in any component."""

    devices = ("cuda",)

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__(network)
        self._device = next(network.parameters()).device
        self._raw = half_precision(network)
        self._size = network.input_size
        self._recordings: dict[int, Recording] = {}
        self._turn = threading.Lock()  # a recording has one input and one output buffer

    @torch.no_grad()
    def describe(self, patches: Tensor) -> Tensor:
        with self._turn:
            return _to_host(self._described(patches), len(patches))

    def _described(self, patches: Tensor) -> Iterator[Tensor]:
        """Yield parts of the descriptors on the device; each is overwritten by the next."""
        for part in patches.split(_ON_DEVICE):
            there = part.to(self._device, non_blocking=True)
            rest = there.float() / 255 if there.dtype == torch.uint8 else there.float()
            while len(rest):
                size = next((each for each in CHUNKS if len(rest) <= each), CHUNKS[-1])
                yield self._recording(size)(rest[:size])[: len(rest)]
                rest = rest[size:]

    def _recording(self, count: int) -> Recording:
        if count not in self._recordings:
            example = torch.rand(count, 1, self._size, self._size, device=self._device)
            self._recordings[count] = Recording(lambda patches: self.finish(self._raw(patches)), example)
        return self._recordings[count]


def _to_host(parts: Iterator[Tensor], count: int) -> Tensor:
    """Copy parts (n, D) from a GPU into one tensor (``count``, D) on the CPU."""
    out, done = None, 0
    for part in parts:
        if out is None:
            # Page-locked, for asynchronous copies.
            out = torch.empty(count, *part.shape[1:], dtype=part.dtype, pin_memory=True)
        out[done : done + len(part)].copy_(part, non_blocking=True)
        done += len(part)
    torch.cuda.current_stream(part.device).synchronize()
    return cast(Tensor, out)


def half_precision(network: PatchNetwork, dtype: torch.dtype = torch.bfloat16) -> Callable[[Tensor], Tensor]:
    """Return a function from float patches (N, 1, S, S) on the network's device to raw vectors (N, D) float32.

    Chains of 3 x 3 convolutions are computed by our kernels, other networks by PyTorch's.
    """
    copied = inference_copy(network)
    chain = _Chain.of(copied, dtype) if supports_triton(next(network.parameters()).device) else None
    if chain is not None:
        return chain
    fast_layers.fuse(copied)

    def raw(patches: Tensor) -> Tensor:
        with torch.autocast(patches.device.type, dtype):
            return copied.forward_features(patches, with_maps=False)[0]

    return raw


class _Chain:
    """Input norm, 3 x 3 convolutions with what follows them, a product with the whole last map, and a last norm."""

    def __init__(self, before: Sequence[nn.Module], layers: Sequence[Layer], last: nn.Conv2d, norm: nn.Module) -> None:
        self._before, self._layers, self._norm = nn.Sequential(*before), layers, norm
        # For maps that lie in memory as (S, S, C).
        self._product = last.weight.permute(0, 2, 3, 1).flatten(1).to(layers[-1].dtype)
        self._shift = None if last.bias is None else last.bias.to(layers[-1].dtype)

    @staticmethod
    def of(network: PatchNetwork, dtype: torch.dtype) -> _Chain | None:
        """Return the chain of an inference copy, or None for other layers and for sizes that the kernels do not take."""
        modules = [each for each in network.chain() or () if not isinstance(each, (nn.Identity, nn.Dropout))]
        convolutions = [number for number, each in enumerate(modules) if isinstance(each, nn.Conv2d)]
        if len(convolutions) < 3 or convolutions[-1] != len(modules) - 2:
            return None
        blocks = [modules[start:end] for start, end in itertools.pairwise(convolutions)]
        layers = [_layer(block, dtype) for block in blocks]
        before = modules[: convolutions[0]]
        side = network.input_size // 2 if any(isinstance(each, Fovea) for each in before) else network.input_size
        for layer in layers:
            if layer is None or not _fits(layer, side):
                return None
            side //= layer.stride
        last, norm = cast(nn.Conv2d, modules[-2]), modules[-1]
        if last.kernel_size != (side, side) or last.padding != (0, 0):
            return None
        first, *rest = cast("list[Layer]", layers)
        entry = _entry(before)
        if entry is not None:
            before, first = [], dataclasses.replace(first, entry=entry)
        return _Chain(before, [first, *rest], last, norm)

    def __call__(self, patches: Tensor) -> Tensor:
        maps, first = self._before(patches).permute(0, 2, 3, 1), self._layers[0].kernel
        if first.shape[1] > 1:
            maps = F.pad(maps, (0, first.shape[1] - maps.shape[3])).to(first.dtype)
        maps = maps.contiguous()
        for layer in self._layers:
            maps = layer(maps)
        vectors = F.linear(maps.flatten(1), self._product, self._shift).float()
        return self._norm(vectors[:, :, None, None]).flatten(1)


def _entry(before: Sequence[nn.Module]) -> Entry | None:
    """Return what precedes the first convolution where the kernel of that layer can do it, else None."""
    from patchprint.networks.engines._cuda_kernels import Entry

    eps: float | None = None
    rest = list(before)
    if rest and isinstance(rest[0], PatchStandardization):
        eps = cast(PatchStandardization, rest.pop(0)).eps
    if not rest:
        return Entry(eps)
    is_frn = [type(each) for each in rest] == [FilterResponseNorm2d, TLU]
    return Entry(eps, _frn(*rest)) if is_frn and cast(TLU, rest[1]).tau.numel() == 1 else None


def _frn(norm: nn.Module, unit: nn.Module) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    norm, unit = cast(FilterResponseNorm2d, norm), cast(TLU, unit)
    return norm.weight.flatten(), norm.bias.flatten(), unit.tau.flatten(), norm.eps


def _layer(block: Sequence[nn.Module], dtype: torch.dtype) -> Layer | None:
    """Return a convolution and what follows it as one kernel, or None."""
    from patchprint.networks.engines._cuda_kernels import Layer

    convolution, *rest = block
    assert isinstance(convolution, nn.Conv2d)
    if convolution.kernel_size != (3, 3) or convolution.padding != (1, 1) or convolution.stride not in ((1, 1), (2, 2)):
        return None
    taps = convolution.weight.detach().flatten(2).permute(2, 1, 0)  # (9, C_in, C_out)
    if 1 < convolution.in_channels < _FEWEST_INPUTS:
        taps = F.pad(taps, (0, 0, 0, _FEWEST_INPUTS - convolution.in_channels))
    taps = taps.contiguous()
    bias = convolution.bias
    shift = torch.zeros_like(taps[0, 0]) if bias is None else bias.detach()
    kernel = taps if convolution.in_channels == 1 else taps.to(dtype)
    if [type(each) for each in rest] == [FilterResponseNorm2d, TLU]:
        return Layer(kernel, shift, convolution.stride[0], _frn(*rest), dtype)
    if [type(each) for each in rest] == [nn.ReLU]:
        return Layer(kernel, shift, convolution.stride[0], None, dtype)
    return None


def _fits(layer: Layer, side: int) -> bool:
    _, inputs, channels = layer.kernel.shape
    # The first layer reads whole patches, FRN whole maps; others take maps of any side.
    any_side = inputs > 1 and layer.frn is None
    in_powers = (inputs, channels) if any_side else (inputs, channels, side)
    powers = all(value & (value - 1) == 0 for value in in_powers)
    if not (powers and side % layer.stride == 0 and side >= 2 * layer.stride and channels >= 16):
        return False
    return inputs == 1 or (inputs >= _FEWEST_INPUTS and layer.plan(side).stages > 0)


engine = CudaEngine
