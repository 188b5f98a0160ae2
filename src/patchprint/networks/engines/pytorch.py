"""PyTorch itself: the network as it is in float32, or a copy of it that is laid out for bfloat16."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from patchprint.networks import PatchNetwork
from patchprint.networks.engines._engine import Compute, CpuEngine


class Float32Engine(CpuEngine):
    """The network itself: the same bits for a patch alone and among others, and the reference for all other engines."""

    devices = ("cpu", "cuda", "mps")

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__(network)
        self.network = network

    def raw(self, patches: Tensor) -> Tensor:
        device = next(self.network.parameters()).device
        if device.type == "cpu":
            return super().raw(patches)
        with _without_tf32():
            return self.network.raw(patches).cpu()

    @contextlib.contextmanager
    def session(self) -> Iterator[Compute]:
        network = self.network.in_evaluation()

        def compute(patches: Tensor) -> Tensor:
            # PyTorch takes another way for a single one, with other last digits.
            several = patches if len(patches) > 1 else patches.expand(2, -1, -1, -1)
            return network.forward_features(several, with_maps=False)[0][: len(patches)]

        yield compute


@contextlib.contextmanager
def _without_tf32() -> Iterator[None]:
    """Convolutions on NVIDIA GPUs keep all bits of float32, which PyTorch does not by default."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


class BFloat16Engine(CpuEngine):
    """A copy with norms multiplied into convolutions, channels last, computed in bfloat16.

    Sums, FRN and the last norm are in float32. Descriptors differ from those in float32 by at most 0.01 in any component.
    """

    def __init__(self, network: PatchNetwork) -> None:
        super().__init__(network)
        self.network = inference_copy(network)

    @contextlib.contextmanager
    def session(self) -> Iterator[Compute]:
        # While the context is open, weights are rounded once.
        with torch.autocast("cpu", torch.bfloat16):
            yield lambda patches: self.network.forward_features(patches, with_maps=False)[0]


def inference_copy(network: PatchNetwork) -> PatchNetwork:
    """A copy that computes the same faster, and cannot be trained: batch norms folded, no dropout, channels last."""
    copied = copy.deepcopy(network).eval()
    for module in list(copied.modules()):
        if isinstance(module, nn.Sequential):
            _fold_norms(module)
    for weight in copied.parameters():
        if weight.ndim == 4:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    return copied.eval()  # also what took the place of norms: else every chunk would be computed by a copy of its own


def multiplies_in_bfloat16() -> bool:
    """Whether this processor does, and PyTorch's convolutions let it: ``ONEDNN_MAX_CPU_ISA`` may forbid them."""
    if not (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()):
        return False
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def _fold_norms(layers: nn.Sequential) -> None:
    """Multiply batch norms into the convolutions before them, but for a last one, which works in float32."""
    for index, (layer, following) in enumerate(itertools.pairwise(layers)):
        is_last = index + 2 == len(layers)
        if type(layer) is nn.Conv2d and isinstance(following, nn.BatchNorm2d) and not is_last:
            layers[index] = fuse_conv_bn_eval(layer, following)
            layers[index + 1] = nn.Identity()
