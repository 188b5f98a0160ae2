"""Kernels that may make a training step faster, timed by `_times.layers` and `_times.step`; not used by the package yet.

On an H200 a step of the FRN trunk takes 4.17 ms (results/speed/training-speed.json). Two weight gradients of convolutions with
32 outputs take 0.6 ms of it, where their maps pass through memory in 0.1; the first convolution is padded from 1 to 8 channels;
and bias, FRN and TLU reach half of the bandwidth, reading a half of each row of 32 channels at a time.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from patchprint.networks import frn_kernel

# Pixels and warps of a program and, where they add up what they find, the number of programs.
PLAN: dict[str, tuple[int, ...]] = {
    "first": (128, 4),
    "first_dx": (64, 4),
    "first_dw": (128, 4, 1056),
    "gradient": (64, 4, 528),
}


@triton.jit
def _frn_forward(  # type: ignore[no-untyped-def]
    x,
    shift,
    weight,
    bias,
    tau,
    eps,
    out,
    scale,
    C: tl.constexpr,
    HW: tl.constexpr,
    BLOCK: tl.constexpr,
    PIXELS: tl.constexpr,
):
    patch, channel = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = patch * HW * C + tl.arange(0, PIXELS)[:, None] * C + channel[None, :]
    moved = tl.load(shift + channel)
    power = tl.zeros([PIXELS, BLOCK], tl.float32)
    for start in range(0, HW, PIXELS):
        value = tl.load(x + place + start * C).to(tl.float32) + moved[None, :]
        power += value * value
    factor = 1.0 / tl.sqrt(tl.sum(power, 0) / HW + tl.abs(tl.load(eps)))
    slope, offset, floor = factor * tl.load(weight + channel), tl.load(bias + channel), tl.load(tau + channel)
    for start in range(0, HW, PIXELS):
        value = tl.load(x + place + start * C).to(tl.float32) + moved[None, :]
        response = value * slope[None, :] + offset[None, :]
        tl.store(out + place + start * C, tl.maximum(response, floor[None, :]).to(out.dtype.element_ty))
    tl.store(scale + patch * C + channel, factor)


@triton.jit
def _frn_backward(  # type: ignore[no-untyped-def]
    gradient,
    x,
    shift,
    scale,
    weight,
    bias,
    tau,
    dx,
    sums,
    N,
    C: tl.constexpr,
    HW: tl.constexpr,
    BLOCK: tl.constexpr,
    PIXELS: tl.constexpr,
):
    patch, channel = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = patch * HW * C + tl.arange(0, PIXELS)[:, None] * C + channel[None, :]
    moved, factor = tl.load(shift + channel), tl.load(scale + patch * C + channel)
    slope, offset, floor = tl.load(weight + channel), tl.load(bias + channel), tl.load(tau + channel)
    by_weight = tl.zeros([PIXELS, BLOCK], tl.float32)
    by_bias = tl.zeros([PIXELS, BLOCK], tl.float32)
    whole = tl.zeros([PIXELS, BLOCK], tl.float32)
    for start in range(0, HW, PIXELS):
        unit = (tl.load(x + place + start * C).to(tl.float32) + moved[None, :]) * factor[None, :]
        incoming = tl.load(gradient + place + start * C).to(tl.float32)
        through = tl.where(unit * slope[None, :] + offset[None, :] > floor[None, :], incoming, 0.0)
        by_weight += through * unit
        by_bias += through
        whole += incoming
    to_weight, to_bias = tl.sum(by_weight, 0), tl.sum(by_bias, 0)
    pull = to_weight / HW
    by_shift = tl.zeros([PIXELS, BLOCK], tl.float32)
    for start in range(0, HW, PIXELS):
        unit = (tl.load(x + place + start * C).to(tl.float32) + moved[None, :]) * factor[None, :]
        incoming = tl.load(gradient + place + start * C).to(tl.float32)
        through = tl.where(unit * slope[None, :] + offset[None, :] > floor[None, :], incoming, 0.0)
        result = (slope * factor)[None, :] * (through - unit * pull[None, :])
        tl.store(dx + place + start * C, result.to(dx.dtype.element_ty))
        by_shift += result
    row = sums + patch * C + channel
    tl.store(row, tl.sum(by_shift, 0))
    tl.store(row + N * C, to_weight)
    tl.store(row + 2 * N * C, to_bias)
    tl.store(row + 3 * N * C, tl.sum(whole, 0) - to_bias)


def norm_forward(
    x: Tensor,
    shift: Tensor,
    weight: Tensor,
    bias: Tensor,
    tau: Tensor,
    eps: Tensor,
    block: int,
    pixels: int,
    warps: int,
) -> tuple[Tensor, Tensor]:
    """Do as ``frn_kernel.frn_tlu``, with so many channels and pixels of a program at a time."""
    count, channels, height, width = x.shape
    out, scale = torch.empty_like(x), x.new_empty(count, channels, dtype=torch.float32)
    _frn_forward[(count, channels // block)](
        x,
        shift,
        weight,
        bias,
        tau,
        eps,
        out,
        scale,
        C=channels,
        HW=height * width,
        BLOCK=block,
        PIXELS=pixels,
        num_warps=warps,
    )
    return out, scale


def norm_backward(
    gradient: Tensor, x: Tensor, shift: Tensor, scale: Tensor, weight: Tensor, bias: Tensor, tau: Tensor,
    block: int, pixels: int, warps: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Do as ``frn_kernel.frn_tlu_backward``, with so many channels and pixels of a program at a time."""
    count, channels, height, width = x.shape
    dx, sums = torch.empty_like(x), x.new_empty(4, count, channels, dtype=torch.float32)
    _frn_backward[(count, channels // block)](
        gradient, x, shift, scale, weight, bias, tau, dx, sums, count,
        C=channels, HW=height * width, BLOCK=block, PIXELS=pixels, num_warps=warps,
    )  # fmt: skip
    return dx, sums.sum(1)


@triton.jit
def _first_forward(x, kernel, out, total, SIDE: tl.constexpr, C: tl.constexpr, PIXELS: tl.constexpr):  # type: ignore[no-untyped-def]
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
def _first_input_gradient(gradient, kernel, dx, total, SIDE: tl.constexpr, C: tl.constexpr, PIXELS: tl.constexpr):  # type: ignore[no-untyped-def]
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
def _first_weight_gradient(x, gradient, out, total, SIDE: tl.constexpr, C: tl.constexpr, PIXELS: tl.constexpr):  # type: ignore[no-untyped-def]
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
    x, patch, row, column, exists, tap: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr, INPUTS: tl.constexpr
):
    down, right = row * STRIDE + tap // 3 - 1, column * STRIDE + tap % 3 - 1
    inside = exists & (down >= 0) & (down < SIDE) & (right >= 0) & (right < SIDE)
    place = ((patch * SIDE + down) * SIDE + right)[None, :] * INPUTS + tl.arange(0, INPUTS)[:, None]
    return tl.load(x + place, inside[None, :], 0.0)


@triton.jit
def _weight_gradient(  # type: ignore[no-untyped-def]
    x,
    gradient,
    out,
    total,
    SIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    INPUTS: tl.constexpr,
    C: tl.constexpr,
    PIXELS: tl.constexpr,
):
    side: tl.constexpr = SIDE // STRIDE
    channel, incoming_channel = tl.arange(0, C), tl.arange(0, INPUTS)
    a = tl.zeros([INPUTS, C], tl.float32)
    b, c, d, e, f, g, h, i = a, a, a, a, a, a, a, a
    for start in range(tl.program_id(0) * PIXELS, total, tl.num_programs(0) * PIXELS):
        number = start + tl.arange(0, PIXELS)
        patch, pixel = (number // (side * side)).to(tl.int64), number % (side * side)
        row, column, exists = pixel // side, pixel % side, number < total
        dy = tl.load(gradient + number.to(tl.int64)[:, None] * C + channel[None, :], exists[:, None], 0.0)
        a = tl.dot(_seen(x, patch, row, column, exists, 0, SIDE, STRIDE, INPUTS), dy, a)
        b = tl.dot(_seen(x, patch, row, column, exists, 1, SIDE, STRIDE, INPUTS), dy, b)
        c = tl.dot(_seen(x, patch, row, column, exists, 2, SIDE, STRIDE, INPUTS), dy, c)
        d = tl.dot(_seen(x, patch, row, column, exists, 3, SIDE, STRIDE, INPUTS), dy, d)
        e = tl.dot(_seen(x, patch, row, column, exists, 4, SIDE, STRIDE, INPUTS), dy, e)
        f = tl.dot(_seen(x, patch, row, column, exists, 5, SIDE, STRIDE, INPUTS), dy, f)
        g = tl.dot(_seen(x, patch, row, column, exists, 6, SIDE, STRIDE, INPUTS), dy, g)
        h = tl.dot(_seen(x, patch, row, column, exists, 7, SIDE, STRIDE, INPUTS), dy, h)
        i = tl.dot(_seen(x, patch, row, column, exists, 8, SIDE, STRIDE, INPUTS), dy, i)
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


def first_forward(x: Tensor, kernel: Tensor) -> Tensor:
    """Convolve one channel: (N, 1, S, S), (C, 1, 3, 3) -> (N, C, S, S) channels last."""
    (count, _, side, _), channels, (pixels, warps) = x.shape, len(kernel), PLAN["first"]
    total = count * side * side
    out = torch.empty(count, channels, side, side, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    _first_forward[(triton.cdiv(total, pixels),)](
        x, kernel, out, total, SIDE=side, C=channels, PIXELS=pixels, num_warps=warps
    )
    return out


def first_backward(gradient: Tensor, x: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the gradients of `first_forward`: of x, and of the kernel in float32."""
    (count, _, side, _), channels, (pixels, warps) = x.shape, len(kernel), PLAN["first_dx"]
    gradient, total = gradient.contiguous(memory_format=torch.channels_last), count * side * side
    dx = torch.empty_like(x)
    _first_input_gradient[(triton.cdiv(total, pixels),)](
        gradient, kernel, dx, total, SIDE=side, C=channels, PIXELS=pixels, num_warps=warps
    )
    pixels, warps, programs = PLAN["first_dw"]
    programs = min(programs, triton.cdiv(total, pixels))
    sums = torch.empty(programs, 16, channels, device=x.device)
    _first_weight_gradient[(programs,)](x, gradient, sums, total, SIDE=side, C=channels, PIXELS=pixels, num_warps=warps)
    return dx, sums.sum(0)[:9].T.reshape(channels, 1, 3, 3)


def weight_gradient(gradient: Tensor, x: Tensor, stride: int) -> Tensor:
    """Compute the gradient of the weights of a 3 x 3 convolution: (N, O, S, S), (N, I, S, S) -> (O, I, 3, 3) float32."""
    (count, inputs, side, _), outputs, (pixels, warps, programs) = x.shape, gradient.shape[1], PLAN["gradient"]
    gradient, x = (each.contiguous(memory_format=torch.channels_last) for each in (gradient, x))
    total = count * (side // stride) ** 2
    programs = min(programs, triton.cdiv(total, pixels))
    sums = torch.empty(programs, 9, inputs, outputs, device=x.device)
    _weight_gradient[(programs,)](
        x, gradient, sums, total, SIDE=side, STRIDE=stride, INPUTS=inputs, C=outputs, PIXELS=pixels, num_warps=warps
    )
    return sums.sum(0).permute(2, 1, 0).reshape(outputs, inputs, 3, 3)


@torch.library.custom_op("patchprint_trial::first", mutates_args=())
def first(x: Tensor, kernel: Tensor) -> Tensor:
    """`first_forward` with its gradient."""
    return first_forward(x.contiguous(), kernel.contiguous())


@torch.library.custom_op("patchprint_trial::first_backward", mutates_args=())
def _first_gradients(gradient: Tensor, x: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    dx, dw = first_backward(gradient, x.contiguous(), kernel.contiguous())
    return dx, dw.to(kernel.dtype).contiguous()


@torch.library.custom_op("patchprint_trial::weight_gradient", mutates_args=())
def _gradient(gradient: Tensor, x: Tensor, stride: int) -> Tensor:
    return weight_gradient(gradient, x, stride).contiguous()


@first.register_fake
def _(x: Tensor, kernel: Tensor) -> Tensor:
    return x.new_empty(len(x), len(kernel), *x.shape[2:]).contiguous(memory_format=torch.channels_last)


@_first_gradients.register_fake
def _(gradient: Tensor, x: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), kernel.new_empty(kernel.shape)


@_gradient.register_fake
def _(gradient: Tensor, x: Tensor, stride: int) -> Tensor:
    return x.new_empty(gradient.shape[1], x.shape[1], 3, 3, dtype=torch.float32)


first.register_autograd(
    lambda ctx, gradient: _first_gradients(gradient, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),  # PyTorch passes it by this name
)


class Convolution(torch.autograd.Function):
    """A 3 x 3 convolution whose gradient of the weights is `weight_gradient`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride = stride
        return F.conv2d(x, weight, stride=stride, padding=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (x, weight), stride = gradients, ctx.saved_tensors, ctx.stride
        dx, _, _ = torch.ops.aten.convolution_backward(
            gradient, x, weight, None, [stride] * 2, [1, 1], [1, 1], False, [0, 0], 1, [True, False, False]
        )
        return dx, _gradient(gradient, x, stride).to(weight.dtype), None


def check(device: torch.device, dtype: torch.dtype, count: int, side: int, tolerance: float) -> None:
    """Compare all of them with PyTorch's operations in float32; raises AssertionError."""

    def near(found: Tensor, expected: Tensor, what: str) -> None:
        apart = (found.detach().float() - expected.detach().float()).norm() / expected.detach().float().norm()
        assert float(apart) < tolerance, f"{what} is off by {float(apart):.2g}"

    def made(*shape: int) -> Tensor:
        values = torch.randn(*shape, device=device).to(dtype)
        return values.contiguous(memory_format=torch.channels_last) if shape[1] > 1 else values

    x, kernel, gradient = made(count, 1, side, side), made(32, 1, 3, 3), made(count, 32, side, side)
    exact = [each.float().clone().requires_grad_() for each in (x, kernel)]
    expected = F.conv2d(exact[0], exact[1], padding=1)
    dx, dw = torch.autograd.grad(expected, exact, gradient.float())
    near(first_forward(x, kernel), expected, "the first convolution")
    for name, found, gradient_of in zip(("x", "kernel"), first_backward(gradient, x, kernel), (dx, dw), strict=True):
        near(found, gradient_of, f"the first convolution's gradient of {name}")
    for inputs, outputs, stride in ((32, 32, 1), (32, 64, 2), (16, 16, 1)):
        x, weight, gradient = (
            made(count, inputs, side, side),
            made(outputs, inputs, 3, 3),
            made(count, outputs, *[side // stride] * 2),
        )
        exact = [each.float().clone().requires_grad_() for each in (x, weight)]
        (dw,) = torch.autograd.grad(F.conv2d(exact[0], exact[1], padding=1, stride=stride), exact[1:], gradient.float())
        given = [each.clone().requires_grad_() for each in (x, weight)]
        (found,) = torch.autograd.grad(Convolution.apply(*given, stride), given[1:], gradient)
        near(found, dw, f"the gradient of weights {inputs} to {outputs}")
    for channels, block, pixels in ((32, 32, 16), (64, 16, 64)):
        x, gradient = made(count, channels, side, side), made(count, channels, side, side)
        weight, bias, tau = (torch.randn(1, channels, 1, 1, device=device) for _ in range(3))
        shift, eps = torch.randn(channels, device=device), torch.tensor([1e-6], device=device)
        out, scale = frn_kernel.frn_tlu(x, shift, weight, bias, tau, eps)
        expected_pairs = (out, scale), frn_kernel.frn_tlu_backward(gradient, x, shift, scale, weight, bias, tau)
        found_pairs = (
            norm_forward(x, shift, weight, bias, tau, eps, block, pixels, 4),
            norm_backward(gradient, x, shift, scale, weight, bias, tau, block, pixels, 4),
        )
        for ours, theirs in zip(found_pairs, expected_pairs, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                near(one, other, f"the norm of {channels} channels")
