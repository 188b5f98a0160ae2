"""Random numbers as a pure function of a key, so that any step of a run can be repeated without the ones before.

A key is a 0-dim int64 tensor; it gives the same numbers on every device, in ``torch.compile`` and CUDA graphs, without host
reads. The mixing function is the 32-bit "lowbias32" finalizer in int64, so that products wrap alike everywhere.
"""

import math

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF


def _mix(x: Tensor) -> Tensor:
    x = x & _MASK
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    return x ^ (x >> 16)


def key(seed: int, step: Tensor | int = 0, device: torch.device | str | None = None) -> Tensor:
    """Return the key of one training step. ``step`` may be a 0-dim int64 tensor that lives on the device."""
    if not isinstance(step, Tensor):
        step = torch.tensor(step, dtype=torch.int64, device=device)
    return fold_in(fold_in(torch.zeros_like(step), seed), step)


def fold_in(key: Tensor, data: Tensor | int) -> Tensor:
    """Derive an independent key; use one small integer per purpose."""
    return _mix(_mix(key + 0x9E3779B9) ^ (data & _MASK))


def bits(key: Tensor, shape: tuple[int, ...], first: int = 0) -> Tensor:
    """Random int64 in [0, 2**32), shape ``shape``, on the key's device; ``first`` leaves out as many rows before."""
    start = first * math.prod(shape[1:])
    index = torch.arange(start, start + math.prod(shape), device=key.device, dtype=torch.int64)
    return _mix(_mix(index) ^ _mix(key + 0x85EBCA6B)).reshape(shape)


def uniform(key: Tensor, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0, first: int = 0) -> Tensor:
    """Float32 in [low, high), shape ``shape``."""
    return (bits(key, shape, first) >> 8).float() * (2.0**-24 * (high - low)) + low


def normal(key: Tensor, shape: tuple[int, ...], first: int = 0) -> Tensor:
    """Standard normal float32, shape ``shape`` (Box-Muller)."""
    radius = torch.sqrt(-2.0 * torch.log(1.0 - uniform(fold_in(key, 1), shape, first=first)))
    return radius * torch.cos(2.0 * math.pi * uniform(fold_in(key, 2), shape, first=first))


def integers(key: Tensor, high: Tensor | int, shape: tuple[int, ...]) -> Tensor:
    """Int64 in [0, high), shape ``shape``; ``high`` < 2**31 may be a tensor that broadcasts to ``shape``."""
    return (bits(key, shape) * high) >> 32


def permutation(key: Tensor, count: int) -> Tensor:
    """Return a random permutation of range(count), shape (count,). The index breaks ties, as on every device."""
    index = torch.arange(count, device=key.device, dtype=torch.int64)
    return torch.argsort((bits(key, (count,)) << 31) | index)
