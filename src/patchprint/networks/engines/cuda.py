"""NVIDIA GPUs: bfloat16 on the tensor cores, every layer one kernel, and the work of a chunk recorded once and replayed."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchprint.common.devices import Recording, runs_kernels
from patchprint.networks import PatchNetwork, fast_layers
from patchprint.networks.blocks import TLU, FilterResponseNorm2d, Fovea, PatchStandardization
from patchprint.networks.engines._engine import Engine
from patchprint.networks.engines.pytorch import inference_copy

if TYPE_CHECKING:
    from patchprint.networks.engines.cuda_kernels import Entry, Layer

# Patches of a recording, the rest is filled up: the more, the better the GPU is used, and the longer a few of them take.
CHUNKS = (64, 512, 2048, 4096)
_FEWEST_INPUTS = 16  # channels that tensor cores multiply by; where there are fewer, zeros fill up
_ON_DEVICE = 1 << 16  # patches that are brought to the device at a time


class CudaEngine(Engine):
    """Descriptors differ from those in float32 by at most 0.01 in any component."""

    devices = ("cuda",)

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__(network)
        self._device = next(network.parameters()).device
        self._raw = half_precision(network)
        self._size = network.input_size
        self._recordings: dict[int, Recording] = {}
        self._turn = threading.Lock()  # recordings have one place for what goes in and comes out

    @torch.no_grad()
    def describe(self, patches: Tensor) -> Tensor:
        with self._turn:
            return _brought_here(self._described(patches), len(patches))

    def _described(self, patches: Tensor) -> Iterator[Tensor]:
        """Parts of the descriptors, in order and on the device; each is overwritten when the next is asked for."""
        for there in patches.split(_ON_DEVICE):
            rest = _as_float(there, self._device)
            while len(rest):
                size = next((each for each in CHUNKS if len(rest) <= each), CHUNKS[-1])
                yield self._recording(size)(rest[:size])[: len(rest)]
                rest = rest[size:]

    def _recording(self, count: int) -> Recording:
        if count not in self._recordings:
            example = torch.rand(count, 1, self._size, self._size, device=self._device)
            self._recordings[count] = Recording(lambda patches: self.finish(self._raw(patches)), example)
        return self._recordings[count]


def _brought_here(parts: Iterator[Tensor], count: int) -> Tensor:
    """Parts (n, D) that lie on a GPU as one tensor (``count``, D) of this machine."""
    out, done = None, 0
    for part in parts:
        if out is None:
            # Page-locked, so that no part waits for the copy of another.
            out = torch.empty(count, *part.shape[1:], dtype=part.dtype, pin_memory=True)
        out[done : done + len(part)].copy_(part, non_blocking=True)
        done += len(part)
    torch.cuda.current_stream(part.device).synchronize()
    return cast(Tensor, out)


def half_precision(network: PatchNetwork, dtype: torch.dtype = torch.bfloat16) -> Callable[[Tensor], Tensor]:
    """A function from float patches (N, 1, S, S) on the network's device to raw vectors (N, D) float32.

    Chains of 3 x 3 convolutions go through our kernels, other networks through PyTorch's.
    """
    copied = inference_copy(network)
    chain = _Chain.of(copied, dtype) if runs_kernels(next(network.parameters()).device) else None
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
        # Of maps (S, S, C), the way in which they lie.
        self._product = last.weight.permute(0, 2, 3, 1).flatten(1).to(layers[-1].dtype)
        self._shift = None if last.bias is None else last.bias.to(layers[-1].dtype)

    @staticmethod
    def of(network: PatchNetwork, dtype: torch.dtype) -> _Chain | None:
        """The chain of a copy for use, or None where it is made of other parts or its sizes are not powers of two."""
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
    """What is done to patches before the first convolution, where the kernel of that layer can do it as it reads them."""
    from patchprint.networks.engines.cuda_kernels import Entry

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
    """A convolution and what follows it as one kernel."""
    from patchprint.networks.engines.cuda_kernels import Layer

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
    powers = all(value & (value - 1) == 0 for value in (side, inputs, channels))
    if not (powers and side >= 2 * layer.stride and channels >= 16 and (inputs == 1 or inputs >= _FEWEST_INPUTS)):
        return False
    return inputs == 1 or layer.plan(side).stages > 0


def _as_float(patches: Tensor, device: torch.device) -> Tensor:
    there = patches.to(device, non_blocking=True)
    return there.float() / 255 if there.dtype == torch.uint8 else there.float()
