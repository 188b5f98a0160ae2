"""What every engine offers, and how patches reach it: in chunks, each of which one core works through alone."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

import torch
from torch import Tensor

from patchprint.engines import _threads
from patchprint.networks import PatchNetwork

Compute = Callable[[Tensor], Tensor]
CHUNK = 64
"""Patches that a core works on at a time: larger ones leave its cache (measured: 1.2 to 1.5 times slower at 512)."""


class Engine(ABC):
    """Computes what a network says about patches, before its head.

    ``package`` is the one it needs, and ``extra`` ours that brings it; ``only_on_cpu``: it knows no other device.
    """

    package: ClassVar[str] = "torch"
    extra: ClassVar[str] = ""
    only_on_cpu: ClassVar[bool] = True
    chunk: ClassVar[int] = CHUNK

    @abstractmethod
    def __init__(self, network: PatchNetwork) -> None: ...

    @abstractmethod
    def session(self) -> contextlib.AbstractContextManager[Compute]:
        """A function from patches (N, 1, S, S), uint8 or float in [0, 1], N at most ``chunk``, to raw vectors (N, D) float32.

        One is opened by each thread that computes, for as long as it does.
        """

    @torch.no_grad()
    def raw(self, patches: Tensor) -> Tensor:
        """Raw vectors, on the CPU.

        Shape:
            patches (N, 1, S, S) uint8 or float in [0, 1], N at least 1 -> (N, D) float32.
        """
        return torch.cat(_threads.each(self._in_session, list(patches.split(self.chunk))))

    @contextlib.contextmanager
    def _in_session(self) -> Iterator[Compute]:
        # Of each thread its own, like everything that PyTorch keeps about the way it computes.
        with torch.no_grad(), self.session() as compute:
            yield compute
