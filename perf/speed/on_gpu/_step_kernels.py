"""Bias, FRN and TLU in parts of a map, which are read twice, in place of whole maps in registers (`networks.frn_kernel`)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


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
