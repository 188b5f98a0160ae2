"""Which device a computation runs on, and how many cores of it."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator

import torch

from patchprint.errors import UserError


def choose_device(device: str | torch.device = "auto") -> torch.device:
    """A torch device; "auto" takes CUDA, then MPS, then the CPU. One that is not there is refused by name."""
    name = str(device)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    kind, _, index = name.partition(":")
    if kind not in available:
        raise UserError(f"unknown device {name!r}; known are auto, cpu, cuda, cuda:N and mps")
    if not available[kind]:
        raise UserError(f"this machine has no {kind} device that PyTorch can use; take the device cpu")
    if index and not (index.isdecimal() and int(index) < (torch.cuda.device_count() if kind == "cuda" else 1)):
        raise UserError(f"this machine has no device {name!r}; take {kind}")
    return torch.device(name)


def runs_kernels(device: torch.device) -> bool:
    """Whether kernels written in Triton run there; it comes with PyTorch's builds for NVIDIA GPUs on Linux."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """PyTorch computes with one thread: for work so short that cores would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
