"""Triton kernels for bias, FRN and TLU fused, one for each direction.

Training HyNet is bound by memory: the kernels read a map once forwards, and map and gradient once backwards, in float32. One
program holds all pixels of some channels of one patch in registers, which needs maps whose side and channels are powers of
two, channels last. Triton comes with PyTorch's builds for GPUs.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

# Numbers of a map in the registers of a program, and its warps; fastest on an H200.
PLAN: dict[str, tuple[int, ...]] = {"forward": (16384, 8), "backward": (8192, 4)}


@triton.jit
def _forward_kernel(  # type: ignore[no-untyped-def]
    x, shift, weight, bias, tau, eps, out, scale, C: tl.constexpr, HW: tl.constexpr, BLOCK: tl.constexpr
):
    # All channels of a patch one after the other: neighboring programs read parts of the same lines of memory.
    blocks: tl.constexpr = C // BLOCK
    patch = (tl.program_id(0) // blocks).to(tl.int64)
    channel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    place = patch * HW * C + tl.arange(0, HW)[:, None] * C + channel[None, :]
    value = tl.load(x + place).to(tl.float32) + tl.load(shift + channel)[None, :]
    factor = 1.0 / tl.sqrt(tl.sum(value * value, 0) / HW + tl.abs(tl.load(eps)))
    slope, offset, floor = tl.load(weight + channel), tl.load(bias + channel), tl.load(tau + channel)
    response = value * (factor * slope)[None, :] + offset[None, :]
    tl.store(out + place, tl.maximum(response, floor[None, :]).to(out.dtype.element_ty))
    tl.store(scale + patch * C + channel, factor)


@triton.jit
def _backward_kernel(  # type: ignore[no-untyped-def]
    gradient, x, shift, scale, weight, bias, tau, dx, sums, N, C: tl.constexpr, HW: tl.constexpr, BLOCK: tl.constexpr
):
    # All channels of a patch one after the other: neighboring programs read parts of the same lines of memory.
    blocks: tl.constexpr = C // BLOCK
    patch = (tl.program_id(0) // blocks).to(tl.int64)
    channel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    place = patch * HW * C + tl.arange(0, HW)[:, None] * C + channel[None, :]
    factor = tl.load(scale + patch * C + channel)
    slope, offset, floor = tl.load(weight + channel), tl.load(bias + channel), tl.load(tau + channel)
    unit = (tl.load(x + place).to(tl.float32) + tl.load(shift + channel)[None, :]) * factor[None, :]
    incoming = tl.load(gradient + place).to(tl.float32)
    passes = unit * slope[None, :] + offset[None, :] > floor[None, :]
    through = tl.where(passes, incoming, 0.0)
    to_weight, to_bias = tl.sum(through * unit, 0), tl.sum(through, 0)
    result = (slope * factor)[None, :] * (through - unit * (to_weight / HW)[None, :])
    tl.store(dx + place, result.to(dx.dtype.element_ty))
    row = sums + patch * C + channel
    tl.store(row, tl.sum(result, 0))
    tl.store(row + N * C, to_weight)
    tl.store(row + 2 * N * C, to_bias)
    tl.store(row + 3 * N * C, tl.sum(incoming, 0) - to_bias)


def bias_frn_tlu(x: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, tau: Tensor, eps: Tensor) -> Tensor:
    """Do as ``hynet.bias_frn_tlu``, on a GPU."""
    return torch.ops.patchprint.frn_tlu(x, shift, weight, bias, tau, eps)[0]


def _layout(x: Tensor, direction: str) -> tuple[tuple[int], dict[str, int]]:
    """Return the grid and the sizes of programs."""
    count, channels, height, width = x.shape
    numbers, warps = PLAN[direction]
    block = max(1, min(channels, numbers // (height * width)))
    return (count * (channels // block),), {"C": channels, "HW": height * width, "BLOCK": block, "num_warps": warps}


@torch.library.custom_op("patchprint::frn_tlu", mutates_args=())
def frn_tlu(x: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, tau: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ``bias_frn_tlu`` and the factor ``1 / sqrt(mean(z^2) + |eps|)``.

    Shape:
        x (N, C, H, W) channels last, shift (C,), weight, bias, tau (1, C, 1, 1), eps (1,)
        -> (N, C, H, W) as x, (N, C) float32.
    """
    x = x.contiguous(memory_format=torch.channels_last)
    grid, sizes = _layout(x, "forward")
    out, scale = torch.empty_like(x), x.new_empty(*x.shape[:2], dtype=torch.float32)
    _forward_kernel[grid](x, shift, weight, bias, tau, eps, out, scale, **sizes)
    return out, scale


@torch.library.custom_op("patchprint::frn_tlu_backward", mutates_args=())
def frn_tlu_backward(
    gradient: Tensor, x: Tensor, shift: Tensor, scale: Tensor, weight: Tensor, bias: Tensor, tau: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the gradients of x, and of shift, weight, bias and tau.

    Shape:
        gradient, x (N, C, H, W), shift (C,), scale (N, C), weight, bias, tau (1, C, 1, 1) -> (N, C, H, W), (4, C) float32.
    """
    gradient = gradient.contiguous(memory_format=torch.channels_last)
    x = x.contiguous(memory_format=torch.channels_last)
    grid, sizes = _layout(x, "backward")
    dx, sums = torch.empty_like(x), x.new_empty(4, *x.shape[:2], dtype=torch.float32)
    _backward_kernel[grid](gradient, x, shift, scale, weight, bias, tau, dx, sums, len(x), **sizes)
    return dx, sums.sum(1)


@frn_tlu.register_fake
def _(x: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, tau: Tensor, eps: Tensor) -> tuple[Tensor, Tensor]:
    shape = torch.empty_like(x, memory_format=torch.channels_last)
    return shape, x.new_empty(x.shape[0], x.shape[1], dtype=torch.float32)


@frn_tlu_backward.register_fake
def _(
    gradient: Tensor, x: Tensor, shift: Tensor, scale: Tensor, weight: Tensor, bias: Tensor, tau: Tensor
) -> tuple[Tensor, Tensor]:
    shape = torch.empty_like(x, memory_format=torch.channels_last)
    return shape, x.new_empty(4, x.shape[1], dtype=torch.float32)


def _remember(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    x, shift, weight, bias, tau, _ = inputs
    ctx.save_for_backward(x, shift, output[1], weight, bias, tau)


def _differentiate(context: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    x, shift, scale, weight, bias, tau = context.saved_tensors
    dx, sums = frn_tlu_backward(gradient, x, shift, scale, weight, bias, tau)
    return dx, sums[0], sums[1].view_as(weight), sums[2].view_as(bias), sums[3].view_as(tau), None


frn_tlu.register_autograd(_differentiate, setup_context=_remember)
