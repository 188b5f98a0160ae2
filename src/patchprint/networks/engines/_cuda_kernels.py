"""Triton kernels for convolutions of small maps, each fused with bias, norm and activation.

Memory bandwidth is the limit: one program holds all pixels of some channels of one patch (or of a few, where maps are small) in
registers until they are finished. The first layer normalizes the patch as it reads it. Sums and norms are in float32. Channels
are powers of two, at least 16; so are sides where FRN follows, since it needs all pixels of a map. Maps are channels last.
Triton comes with PyTorch's builds for GPUs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

_SUMS_OF_A_PROGRAM = 32768  # in registers: 128 for each thread of 8 warps
_FIRST_CHANNELS = 32  # of the first layer that one program computes; 64 bytes in a row


@triton.jit
def _finished(value, shift, weight, bias, tau, eps, channel, PIXELS: tl.constexpr, IS_FRN: tl.constexpr):  # type: ignore[no-untyped-def]
    """Bias and FRN and TLU, or bias and ReLU, of (patches, PIXELS, channels) float32."""
    value += tl.load(shift + channel)[None, None, :]
    if IS_FRN:
        factor = tl.rsqrt(tl.sum(value * value, 1) / PIXELS + tl.abs(tl.load(eps)))[:, None, :]
        value = value * (factor * tl.load(weight + channel)[None, None, :]) + tl.load(bias + channel)[None, None, :]
        return tl.maximum(value, tl.load(tau + channel)[None, None, :])
    return tl.maximum(value, 0.0)


@triton.jit
def _first_kernel(  # type: ignore[no-untyped-def]
    x, kernel, shift, weight, bias, tau, eps, out, entry_weight, entry_bias, entry_tau, entry_eps, standard_eps,
    SIDE: tl.constexpr, STRIDE: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr, IS_FRN: tl.constexpr,
    STANDARDIZES: tl.constexpr, ENTRY_IS_FRN: tl.constexpr,
):  # fmt: skip
    side: tl.constexpr = SIDE // STRIDE
    pixels: tl.constexpr = side * side
    patch, channel = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    whole = tl.load(x + patch * SIDE * SIDE + tl.arange(0, SIDE * SIDE))
    mean, factor, offset = 0.0, 1.0, 0.0
    if STANDARDIZES:
        mean = tl.sum(whole, 0) / (SIDE * SIDE)
        squares = tl.sum((whole - mean) * (whole - mean), 0)
        factor = 1 / (tl.sqrt(squares / (SIDE * SIDE - 1)) + standard_eps)
    if ENTRY_IS_FRN:
        power = tl.sum((whole - mean) * (whole - mean), 0) * factor * factor / (SIDE * SIDE)
        factor *= tl.load(entry_weight) * tl.rsqrt(power + tl.abs(tl.load(entry_eps)))
        offset = tl.load(entry_bias)
    pixel = tl.arange(0, pixels)
    value = tl.zeros([pixels, BLOCK], tl.float32)
    for tap in tl.static_range(9):
        row, column = pixel // side * STRIDE + tap // 3 - 1, pixel % side * STRIDE + tap % 3 - 1
        inside = (row >= 0) & (row < SIDE) & (column >= 0) & (column < SIDE)
        seen = (tl.load(x + patch * SIDE * SIDE + row * SIDE + column, inside, 0.0) - mean) * factor + offset
        if ENTRY_IS_FRN:
            seen = tl.maximum(seen, tl.load(entry_tau))
        seen = tl.where(inside, seen, 0.0)
        value += seen[:, None] * tl.load(kernel + tap * CHANNELS + channel)[None, :]
    value = _finished(value[None, :, :], shift, weight, bias, tau, eps, channel, pixels, IS_FRN)
    place = patch * pixels * CHANNELS + pixel[:, None] * CHANNELS + channel[None, :]
    tl.store(out + place[None, :, :], value.to(out.dtype.element_ty))


@triton.jit(do_not_specialize=["zero"])
def _convolution_kernel(  # type: ignore[no-untyped-def]
    x, kernel, shift, weight, bias, tau, eps, out, count, zero,
    SIDE: tl.constexpr, STRIDE: tl.constexpr, INPUTS: tl.constexpr, CHANNELS: tl.constexpr,
    PIXELS: tl.constexpr, BLOCK: tl.constexpr, IS_FRN: tl.constexpr,
):  # fmt: skip
    side: tl.constexpr = SIDE // STRIDE
    pixels: tl.constexpr = side * side
    of_map: tl.constexpr = pixels if IS_FRN else PIXELS
    channel, incoming = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, INPUTS)
    first = tl.program_id(0).to(tl.int64) * PIXELS
    number = (first % pixels).to(tl.int32) + tl.arange(0, PIXELS)  # from the first pixel of the first patch
    patch, pixel = first // pixels + number // pixels, number % pixels
    exists = patch < count
    top, left = pixel // side * STRIDE - 1, pixel % side * STRIDE - 1
    if pixels & (pixels - 1):
        # Numbers that LLVM knows to be small become pairs of 16 bits, of which ptxas for Hopper makes wrong masks.
        top, left = top + zero, left + zero
    value = tl.zeros([PIXELS, BLOCK], tl.float32)
    for tap in range(9):
        row, column = top + tap // 3, left + tap % 3
        inside = exists & (row >= 0) & (row < SIDE) & (column >= 0) & (column < SIDE)
        place = ((patch * SIDE + row) * SIDE + column) * INPUTS
        seen = tl.load(x + place[:, None] + incoming[None, :], inside[:, None], 0.0)
        taken = tl.load(kernel + (tap * INPUTS + incoming)[:, None] * CHANNELS + channel[None, :])
        value = tl.dot(seen, taken, value)
    maps = tl.reshape(value, [PIXELS // of_map, of_map, BLOCK])
    value = _finished(maps, shift, weight, bias, tau, eps, channel, pixels, IS_FRN)
    value = tl.reshape(value, [PIXELS, BLOCK])
    place = (patch * pixels + pixel)[:, None] * CHANNELS + channel[None, :]
    tl.store(out + place, value.to(out.dtype.element_ty), exists[:, None])


@dataclass(frozen=True)
class Entry:
    """What precedes the first convolution: standardization with ``eps``, or None; FRN and TLU of one channel, or None."""

    eps: float | None = None
    frn: tuple[Tensor, Tensor, Tensor, Tensor] | None = None


@dataclass(frozen=True)
class Layer:
    """A 3 x 3 convolution fused with what follows it and, in a first layer of one channel, with ``entry``.

    Shape:
        kernel (9, C_in, C_out) of ``dtype``, or float32 where C_in is 1; shift (C_out,); frn for FRN and TLU: weight, bias,
        tau (C_out,) and eps (1,), for ReLU None.
    """

    kernel: Tensor
    shift: Tensor
    stride: int
    frn: tuple[Tensor, Tensor, Tensor, Tensor] | None
    dtype: torch.dtype = torch.bfloat16
    entry: Entry = Entry()

    def __call__(self, x: Tensor) -> Tensor:
        """Compute maps: (N, S, S, C_in) of the kernel's type -> (N, S / stride, S / stride, C_out) of ``dtype``."""
        count, side = x.shape[:2]
        _, inputs, channels = self.kernel.shape
        rest = self.frn or (self.shift,) * 4  # not read
        smaller = side // self.stride
        out = torch.empty(count, smaller, smaller, channels, dtype=self.dtype, device=x.device)
        shared = {"SIDE": side, "STRIDE": self.stride, "CHANNELS": channels, "IS_FRN": self.frn is not None}
        if inputs == 1:
            block = min(channels, _FIRST_CHANNELS)
            grid = (count, channels // block)
            entry = self.entry
            _first_kernel[grid](
                x, self.kernel, self.shift, *rest, out, *(entry.frn or rest), entry.eps or 0.0,
                **shared, BLOCK=block, STANDARDIZES=entry.eps is not None, ENTRY_IS_FRN=entry.frn is not None, num_warps=8,
            )  # fmt: skip
            return out
        plan = self.plan(side)
        grid = (triton.cdiv(count * smaller * smaller, plan.pixels), channels // plan.block)
        _convolution_kernel[grid](
            x, self.kernel, self.shift, *rest, out, count, 0,
            **shared, INPUTS=inputs, PIXELS=plan.pixels, BLOCK=plan.block, num_warps=plan.warps, num_stages=plan.stages,
        )  # fmt: skip
        return out

    def plan(self, side: int) -> Plan:
        """Return how maps of ``side`` are divided among programs, as was fastest on an H200."""
        _, inputs, channels = self.kernel.shape
        fewest = 128 if self.stride == 2 else 64
        of_map = (side // self.stride) ** 2
        pixels = fewest if of_map & (of_map - 1) else max(of_map, fewest)
        block = min(channels, _SUMS_OF_A_PROGRAM // pixels)
        many = self.stride == 1 and pixels * block >= 16384
        bytes_of_a_stage = 2 * inputs * (pixels + block)
        stages = min(
            2 if self.stride == 1 and inputs >= 64 else 3, _shared_memory(self.kernel.device) // bytes_of_a_stage
        )
        return Plan(pixels, block, 8 if many else 4, stages)


@dataclass(frozen=True)
class Plan:
    """Pixels, channels, warps and pipeline stages of one program; with no stages it does not fit."""

    pixels: int
    block: int
    warps: int
    stages: int


@functools.lru_cache
def _shared_memory(device: torch.device) -> int:
    """Return the shared memory of a program in bytes; the interpreter has no limit."""
    if device.type != "cuda":
        return 1 << 30
    number = torch.cuda.current_device() if device.index is None else device.index
    return int(triton.runtime.driver.active.utils.get_device_properties(number)["max_shared_mem"])
