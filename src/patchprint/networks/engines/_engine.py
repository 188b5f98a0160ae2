"""What every engine offers, and how patches reach those of the CPU: in chunks, each of which one core works through alone."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from patchprint.common import threads
from patchprint.networks import PatchNetwork
from patchprint.networks.network import CHUNK_ON_CPU

Compute = Callable[[Tensor], Tensor]


class Engine(ABC):
    """Computes what a network says about patches.

    ``package`` is the one it needs, and ``extra`` ours that brings it; ``devices`` are the kinds on which it computes.
    """

    package: ClassVar[str] = "torch"
    extra: ClassVar[str] = ""
    devices: ClassVar[tuple[str, ...]]

    def __init__(self, network: PatchNetwork) -> None:
        self.finish = network.finish

    @abstractmethod
    def describe(self, patches: Tensor) -> Tensor:
        """Descriptors, on the CPU; safe from several threads.

        Shape:
            patches (N, 1, S, S) uint8 or float in [0, 1], N at least 1 -> as `PatchNetwork.finish` has it.
        """

    def describe_cut(self, cuts: Sequence[Callable[[], Tensor]]) -> Tensor:
        """Descriptors of patches that are cut on the way, at most `CHUNK_ON_CPU` by each of ``cuts``; else as `describe`."""
        return torch.cat([self.describe(cut()) for cut in cuts])


class CpuEngine(Engine):
    """One whose chunks are divided among the cores."""

    devices: ClassVar[tuple[str, ...]] = ("cpu",)

    @abstractmethod
    def session(self) -> contextlib.AbstractContextManager[Compute]:
        """A function from at most `CHUNK_ON_CPU` patches (N, 1, S, S), uint8 or float in [0, 1], to raw vectors (N, D) float32.

        One is opened by each thread that computes, for as long as it does.
        """

    def describe(self, patches: Tensor) -> Tensor:
        return self.finish(self.raw(patches))

    @torch.no_grad()
    def raw(self, patches: Tensor) -> Tensor:
        """Vectors before the head.

        Shape:
            patches (N, 1, S, S) uint8 or float in [0, 1], N at least 1 -> (N, D) float32.
        """
        parts = [partial(torch.Tensor.cpu, part) for part in patches.split(CHUNK_ON_CPU)]
        return torch.cat(threads.each(self._in_session, parts))

    def describe_cut(self, cuts: Sequence[Callable[[], Tensor]]) -> Tensor:
        # A core cuts patches and computes them before it takes the next ones: they are in its cache.
        return self.finish(torch.cat(threads.each(self._in_session, cuts)))

    @contextlib.contextmanager
    def _in_session(self) -> Iterator[Callable[[Callable[[], Tensor]], Tensor]]:
        # Of each thread its own, like everything that PyTorch keeps about the way it computes.
        with torch.no_grad(), self.session() as compute:
            yield lambda cut: compute(cut())
