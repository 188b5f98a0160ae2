"""HyNet and SDGMNet: L2-Net's convolutions with filter response normalization and thresholded linear units."""

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from patchprint.common.devices import supports_triton
from patchprint.common.errors import UserError
from patchprint.networks.blocks import (
    Fovea,
    PatchStandardization,
    ViewBatchNorm2d,
    at_least_float32,
    middle_square,
    unit_length,
)
from patchprint.networks.network import Kind, Maps, PatchNetwork

InputNorm = Literal["frn", "standard"]
_QUARTERS = (4, 3, 2)  # sides of the squares of a pooled network


class FilterResponseNorm2d(nn.Module):
    """FRN: ``weight * x / sqrt(mean(x^2 over the map) + |eps|) + bias`` per sample and channel.

    Computed in float32 at least, since scale and bias nearly cancel in trained networks.

    Shape:
        (N, C, H, W) -> (N, C, H, W), same dtype.
    """

    eps: Tensor

    def __init__(self, num_features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, num_features, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, num_features, 1, 1))
        self.register_buffer("eps", torch.tensor([eps]))

    def forward(self, x: Tensor) -> Tensor:
        wide = at_least_float32(x)
        scale = torch.rsqrt(wide.square().mean((2, 3), keepdim=True) + self.eps.abs())
        return torch.addcmul(self.bias, wide, self.weight * scale).to(x.dtype)


class TLU(nn.Module):
    """Thresholded linear unit ``max(x, tau)``, one learned tau per channel, starting at -1 as in HyNet.

    Shape:
        (N, C, H, W) -> (N, C, H, W), same dtype.
    """

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.tau = nn.Parameter(torch.full((1, num_features, 1, 1), -1.0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, self.tau.to(x.dtype))


class HyNet(PatchNetwork):
    """HyNet and SDGMNet. State-dict keys are those of kornia's HyNet.

    Args:
        input_norm: "frn" as published, which cancels contrast ``a * x`` but not brightness ``x + b``; "standard" standardizes
            patches first, which cancels both.
        fovea: number of nested squares of 32 x 32 pixels that the first layer sees of a larger patch (see `Fovea`); 0 for none.
        extra: number of 3 x 3 layers added at each of the two smaller sizes, 16 x 16 and 8 x 8.

    Shape:
        (N, 1, 32, 32), with a fovea (N, 1, 64, 64) -> (N, dim).
    """

    def __init__(
        self,
        dim: int = 128,
        width: int = 32,
        dropout: float = 0.3,
        input_norm: InputNorm = "frn",
        kind: Kind = "float",
        fovea: int = 0,
        extra: int = 0,
    ) -> None:
        super().__init__(dim, kind, input_size=64 if fovea else 32)
        if extra < 0:
            raise UserError(f"extra is a number of layers, not {extra}")
        if input_norm not in ("frn", "standard"):
            raise UserError(f"input_norm must be 'frn' or 'standard', not {input_norm!r}")
        self._fused: Callable[..., Tensor] | None = None
        self.cancels_brightness = input_norm == "standard"
        self.standardize: nn.Module = PatchStandardization() if input_norm == "standard" else nn.Identity()
        if fovea:
            if input_norm != "standard":
                raise UserError("a fovea standardizes what it sees; give input_norm 'standard'")
            self.standardize = Fovea(fovea)
        seen = max(fovea, 1)
        self.layer1 = nn.Sequential(FilterResponseNorm2d(seen), TLU(seen), *_block(seen, width))
        self.layer2 = nn.Sequential(*_block(width, width))
        self.layer3 = nn.Sequential(*_block(width, 2 * width, stride=2))
        self.layer4 = nn.Sequential(*_blocks(2 * width, 1 + extra))
        self.layer5 = nn.Sequential(*_block(2 * width, 4 * width, stride=2))
        self.layer6 = nn.Sequential(*_blocks(4 * width, 1 + extra))
        last = nn.Conv2d(4 * width, dim, 8, bias=False)
        self.layer7 = nn.Sequential(nn.Dropout(dropout), last, ViewBatchNorm2d(dim))

    def chain(self) -> list[nn.Module]:
        blocks = (self.layer1, self.layer2, self.layer3, self.layer4, self.layer5, self.layer6, self.layer7)
        return [self.standardize, *(layer for block in blocks for layer in block)]

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        x = self.standardize(patches).to(self.dtype)
        x = self.layer1[:2](x)
        first = self.layer1[2:4](x) if with_maps else None
        for layer in (self.layer1[2:], self.layer2, self.layer3, self.layer4, self.layer5, self.layer6):
            x = self._run_blocks(layer, x)
        x = self.layer7[:-1](x)
        raw = self.layer7[-1](x.to(self.dtype)).flatten(1)
        return raw, None if first is None else (first.flatten(1), raw)

    def fuse(self) -> None:
        """Compute convolution bias, FRN and TLU in one operation from now on, which is faster and equal up to rounding."""
        bias = cast(Tensor, self.layer2[0].bias)
        if not bias.is_cuda:
            self._fused = bias_frn_tlu
        # The kernel holds whole maps in registers, whose sizes are powers of two.
        elif supports_triton(bias.device) and len(bias) & (len(bias) - 1) == 0:
            from patchprint.networks import frn_kernel

            self._fused = frn_kernel.bias_frn_tlu

    def _run_blocks(self, layer: nn.Module, x: Tensor) -> Tensor:
        if self._fused is None:
            return layer(x)
        parts = cast(Any, tuple(layer.children()))
        for convolution, norm, unit in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            x = convolution._conv_forward(x, convolution.weight, None)
            x = self._fused(x, convolution.bias, norm.weight, norm.bias, unit.tau, norm.eps)
        return x


class PooledNetwork(PatchNetwork):
    """Mean of the unit descriptors of three nested squares: the whole side, three quarters of it, and half.

    It matches better than any of the three (docs/evidence/training-log.md), also with a network trained alone.

    Shape:
        (N, 1, 2 S, 2 S) -> (N, network.dim), where ``network`` takes patches of S x S pixels.
    """

    has_maps = False

    def __init__(self, network: PatchNetwork) -> None:
        if network.kind == "binary":
            raise UserError("signs have no mean; give pooled weights kind 'float'")
        super().__init__(network.dim, network.kind, 2 * network.input_size)
        self.network = network
        self.cancels_brightness = network.cancels_brightness

    def encode(self, patches: Tensor, with_maps: bool) -> tuple[Tensor, Maps | None]:
        squares = torch.stack([middle_square(patches[:, 0], quarters) for quarters in _QUARTERS], 1)
        raw, _ = self.network.encode(squares.flatten(0, 1)[:, None], with_maps=False)
        return unit_length(raw).unflatten(0, (-1, len(_QUARTERS))).mean(1), None


def sdgmnet(
    dim: int = 128,
    width: int = 32,
    dropout: float = 0.3,
    input_norm: InputNorm = "frn",
    kind: Kind = "float",
    fovea: int = 0,
    extra: int = 0,
    pooled: bool = False,
) -> PatchNetwork:
    """Create HyNet's trunk under the name of the paper on gradient modulation; see ``HyNet`` and ``PooledNetwork``."""
    network = HyNet(dim, width, dropout, input_norm, kind, fovea, extra)
    return PooledNetwork(network) if pooled else network


def _block(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1), FilterResponseNorm2d(outputs), TLU(outputs)]


def _blocks(channels: int, count: int) -> list[nn.Module]:
    parts: list[nn.Module] = []
    for _ in range(count):
        parts += _block(channels, channels)
    return parts


def bias_frn_tlu(x: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, tau: Tensor, eps: Tensor) -> Tensor:
    """Compute ``max(weight * z / sqrt(mean(z^2) + |eps|) + bias, tau)`` of ``z = x + shift``, mean over each map.

    The gradient is written out, which is two to three times as fast on a CPU as autograd.

    Shape:
        x (N, C, H, W), shift (C,), weight, bias, tau (1, C, 1, 1), eps (1,) -> (N, C, H, W), same dtype.
    """
    return _BiasFrnTlu.apply(x, shift, weight, bias, tau, eps)


class _BiasFrnTlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, tau: Tensor, eps: Tensor) -> Tensor:
        shifted = x + shift[:, None, None]
        power = torch.linalg.vector_norm(shifted, dim=(2, 3), keepdim=True).square() / shifted[0, 0].numel()
        scale = torch.rsqrt(power + eps.abs())
        out = torch.addcmul(bias, shifted, scale * weight)
        torch.maximum(out, tau, out=out)
        ctx.save_for_backward(shifted, out, scale, weight, tau)
        return out.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        shifted, out, scale, weight, tau = ctx.saved_tensors
        gradient = gradients[0].to(out.dtype)
        through = torch.where(out > tau, gradient, 0.0)
        to_bias = through.sum((2, 3), keepdim=True)
        to_weight = (through * shifted).sum((2, 3), keepdim=True) * scale
        to_tau = gradient.sum((2, 3), keepdim=True) - to_bias
        slope = weight * scale
        pull = slope * scale * to_weight / shifted[0, 0].numel()
        to_x = torch.addcmul(through * slope, shifted, pull, value=-1)
        to_shift = to_x.sum((0, 2, 3))
        sums = (value.sum(0, keepdim=True) for value in (to_weight, to_bias, to_tau))
        return to_x.to(gradients[0].dtype), to_shift, *sums, None
