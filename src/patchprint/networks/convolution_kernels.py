"""Triton kernels for training convolutions of few channels, which cuDNN computes at a small part of the memory's speed.

`first` is a 3 x 3 convolution of one channel, `with_own_gradient` one whose gradient of the weights is added up in one pass.
Maps are square and padded with one pixel; their channels, which lie last, are powers of two, 16 at least.
"""

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

# Pixels and warps of a program and, where programs add up what they find, how many there are; fastest on an H200.
PLANS: dict[str, tuple[int, ...]] = {
    "first": (256, 4),
    "first_dx": (64, 4),
    "first_dw": (128, 4, 1056),
    "gradient": (64, 4, 528),
}


@triton.jit
def _first_kernel(x, kernel, out, total, SIDE: tl.constexpr, C: tl.constexpr, PIXELS: tl.constexpr):  # type: ignore[no-untyped-def]
    number = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    patch, pixel = (number // (SIDE * SIDE)).to(tl.int64), number % (SIDE * SIDE)
    row, column, channel = pixel // SIDE, pixel % SIDE, tl.arange(0, C)
    exists = number < total
    value = tl.zeros([PIXELS, C], tl.float32)
    for tap in tl.static_range(9):
        down, right = row + tap // 3 - 1, column + tap % 3 - 1
        inside = exists & (down >= 0) & (down < SIDE) & (right >= 0) & (right < SIDE)
        seen = tl.load(x + patch * SIDE * SIDE + down * SIDE + right, inside, 0.0).to(tl.float32)
        value += seen[:, None] * tl.load(kernel + channel * 9 + tap).to(tl.float32)[None, :]
    tl.store(out + number.to(tl.int64)[:, None] * C + channel[None, :], value.to(out.dtype.element_ty), exists[:, None])


@triton.jit
def _first_input_kernel(gradient, kernel, dx, total, SIDE: tl.constexpr, C: tl.constexpr, PIXELS: tl.constexpr):  # type: ignore[no-untyped-def]
    number = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    patch, pixel = (number // (SIDE * SIDE)).to(tl.int64), number % (SIDE * SIDE)
    row, column, channel = pixel // SIDE, pixel % SIDE, tl.arange(0, C)
    exists = number < total
    value = tl.zeros([PIXELS, C], tl.float32)
    for tap in tl.static_range(9):
        down, right = row - tap // 3 + 1, column - tap % 3 + 1
        inside = exists & (down >= 0) & (down < SIDE) & (right >= 0) & (right < SIDE)
        place = (patch * SIDE * SIDE + down * SIDE + right)[:, None] * C + channel[None, :]
        value += (
            tl.load(gradient + place, inside[:, None], 0.0).to(tl.float32)
            * tl.load(kernel + channel * 9 + tap).to(tl.float32)[None, :]
        )
    tl.store(dx + number, tl.sum(value, 1).to(dx.dtype.element_ty), exists)


@triton.jit
def _first_weight_kernel(x, gradient, out, total, SIDE: tl.constexpr, C: tl.constexpr, PIXELS: tl.constexpr):  # type: ignore[no-untyped-def]
    tap, channel = tl.arange(0, 16), tl.arange(0, C)
    sums = tl.zeros([16, C], tl.float32)
    for start in range(tl.program_id(0) * PIXELS, total, tl.num_programs(0) * PIXELS):
        number = start + tl.arange(0, PIXELS)
        patch, pixel = (number // (SIDE * SIDE)).to(tl.int64), number % (SIDE * SIDE)
        down = (pixel // SIDE)[None, :] + (tap // 3)[:, None] - 1
        right = (pixel % SIDE)[None, :] + (tap % 3)[:, None] - 1
        exists = number < total
        inside = (tap < 9)[:, None] & exists[None, :] & (down >= 0) & (down < SIDE) & (right >= 0) & (right < SIDE)
        seen = tl.load(x + (patch * SIDE * SIDE)[None, :] + down * SIDE + right, inside, 0.0)
        incoming = tl.load(gradient + number.to(tl.int64)[:, None] * C + channel[None, :], exists[:, None], 0.0)
        sums = tl.dot(seen.to(incoming.dtype), incoming, sums)
    tl.store(out + (tl.program_id(0) * 16 + tap)[:, None] * C + channel[None, :], sums)


@triton.jit
def _seen(  # type: ignore[no-untyped-def]
    x, patch, row, column, exists, tap: tl.constexpr, SIDE: tl.constexpr, INPUTS: tl.constexpr
):
    down, right = row + tap // 3 - 1, column + tap % 3 - 1
    inside = exists & (down >= 0) & (down < SIDE) & (right >= 0) & (right < SIDE)
    place = ((patch * SIDE + down) * SIDE + right)[None, :] * INPUTS + tl.arange(0, INPUTS)[:, None]
    return tl.load(x + place, inside[None, :], 0.0)


@triton.jit
def _weight_kernel(  # type: ignore[no-untyped-def]
    x,
    gradient,
    out,
    total,
    SIDE: tl.constexpr,
    INPUTS: tl.constexpr,
    C: tl.constexpr,
    PIXELS: tl.constexpr,
):
    channel, incoming_channel = tl.arange(0, C), tl.arange(0, INPUTS)
    a = tl.zeros([INPUTS, C], tl.float32)
    b, c, d, e, f, g, h, i = a, a, a, a, a, a, a, a
    for start in range(tl.program_id(0) * PIXELS, total, tl.num_programs(0) * PIXELS):
        number = start + tl.arange(0, PIXELS)
        patch, pixel = (number // (SIDE * SIDE)).to(tl.int64), number % (SIDE * SIDE)
        row, column, exists = pixel // SIDE, pixel % SIDE, number < total
        dy = tl.load(gradient + number.to(tl.int64)[:, None] * C + channel[None, :], exists[:, None], 0.0)
        a = tl.dot(_seen(x, patch, row, column, exists, 0, SIDE, INPUTS), dy, a)
        b = tl.dot(_seen(x, patch, row, column, exists, 1, SIDE, INPUTS), dy, b)
        c = tl.dot(_seen(x, patch, row, column, exists, 2, SIDE, INPUTS), dy, c)
        d = tl.dot(_seen(x, patch, row, column, exists, 3, SIDE, INPUTS), dy, d)
        e = tl.dot(_seen(x, patch, row, column, exists, 4, SIDE, INPUTS), dy, e)
        f = tl.dot(_seen(x, patch, row, column, exists, 5, SIDE, INPUTS), dy, f)
        g = tl.dot(_seen(x, patch, row, column, exists, 6, SIDE, INPUTS), dy, g)
        h = tl.dot(_seen(x, patch, row, column, exists, 7, SIDE, INPUTS), dy, h)
        i = tl.dot(_seen(x, patch, row, column, exists, 8, SIDE, INPUTS), dy, i)
    place = out + tl.program_id(0).to(tl.int64) * 9 * INPUTS * C + incoming_channel[:, None] * C + channel[None, :]
    tl.store(place, a)
    tl.store(place + INPUTS * C, b)
    tl.store(place + 2 * INPUTS * C, c)
    tl.store(place + 3 * INPUTS * C, d)
    tl.store(place + 4 * INPUTS * C, e)
    tl.store(place + 5 * INPUTS * C, f)
    tl.store(place + 6 * INPUTS * C, g)
    tl.store(place + 7 * INPUTS * C, h)
    tl.store(place + 8 * INPUTS * C, i)


@torch.library.custom_op("patchprint::first_convolution", mutates_args=())
def first(x: Tensor, kernel: Tensor) -> Tensor:
    """Convolve one channel: (N, 1, S, S), (C, 1, 3, 3) -> (N, C, S, S) channels last."""
    x, kernel = x.contiguous(), kernel.contiguous()
    (count, _, side, _), channels, (pixels, warps) = x.shape, len(kernel), PLANS["first"]
    total = count * side * side
    out = torch.empty(count, channels, side, side, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    _first_kernel[(triton.cdiv(total, pixels),)](
        x, kernel, out, total, SIDE=side, C=channels, PIXELS=pixels, num_warps=warps
    )
    return out


@torch.library.custom_op("patchprint::first_convolution_backward", mutates_args=())
def first_backward(gradient: Tensor, x: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the gradients of `first`: of x, and of the kernel."""
    gradient = gradient.contiguous(memory_format=torch.channels_last)
    x, kernel = x.contiguous(), kernel.contiguous()
    (count, _, side, _), channels, (pixels, warps) = x.shape, len(kernel), PLANS["first_dx"]
    total, dx = count * side * side, torch.empty_like(x)
    _first_input_kernel[(triton.cdiv(total, pixels),)](
        gradient, kernel, dx, total, SIDE=side, C=channels, PIXELS=pixels, num_warps=warps
    )
    pixels, warps, most = PLANS["first_dw"]
    programs = min(most, triton.cdiv(total, pixels))
    sums = torch.empty(programs, 16, channels, device=x.device)
    _first_weight_kernel[(programs,)](x, gradient, sums, total, SIDE=side, C=channels, PIXELS=pixels, num_warps=warps)
    return dx, sums.sum(0)[:9].T.reshape(channels, 1, 3, 3).to(kernel.dtype).contiguous()


@torch.library.custom_op("patchprint::convolution_weight_gradient", mutates_args=())
def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """Compute the gradient of the weights of a 3 x 3 convolution: (N, O, S, S), (N, I, S, S) -> (O, I, 3, 3) float32."""
    (count, inputs, side, _), outputs, (pixels, warps, most) = x.shape, gradient.shape[1], PLANS["gradient"]
    gradient, x = (each.contiguous(memory_format=torch.channels_last) for each in (gradient, x))
    total = count * side * side
    programs = min(most, triton.cdiv(total, pixels))
    sums = torch.empty(programs, 9, inputs, outputs, device=x.device)
    _weight_kernel[(programs,)](
        x, gradient, sums, total, SIDE=side, INPUTS=inputs, C=outputs, PIXELS=pixels, num_warps=warps
    )
    return sums.sum(0).permute(2, 1, 0).reshape(outputs, inputs, 3, 3).contiguous()


@first.register_fake
def _(x: Tensor, kernel: Tensor) -> Tensor:
    return x.new_empty(len(x), len(kernel), *x.shape[2:]).contiguous(memory_format=torch.channels_last)


@first_backward.register_fake
def _(gradient: Tensor, x: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), kernel.new_empty(kernel.shape)


@weight_gradient.register_fake
def _(gradient: Tensor, x: Tensor) -> Tensor:
    return x.new_empty(gradient.shape[1], x.shape[1], 3, 3, dtype=torch.float32)


first.register_autograd(
    lambda ctx, gradient: first_backward(gradient, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),  # PyTorch passes it by this name
)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight, padding=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (gradient,), (x, weight) = gradients, ctx.saved_tensors
        dx, _, _ = torch.ops.aten.convolution_backward(
            gradient, x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, False, False]
        )
        return dx, weight_gradient(gradient, x).to(weight.dtype)


def with_own_gradient(x: Tensor, weight: Tensor) -> Tensor:
    """Convolve (N, I, S, S) with (O, I, 3, 3); the gradient of the weights is `weight_gradient`."""
    return _Convolution.apply(x, weight)
