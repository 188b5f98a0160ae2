"""Process group, collective operations with gradients, and the share of this rank.

Processes that hold the same batch and compute the same loss have the same gradients, which need no exchange. The exception
is a table of all pairs, of which each computes some rows (``Rows``); what these give to the points of others is summed.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError


def start(device: str) -> torch.device:
    """Return the device of this process; join the group where torchrun started several (NCCL on GPUs, gloo elsewhere)."""
    chosen = choose_device(device)
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", chosen.index or 0)))
        torch.cuda.set_device(chosen)
    if rank_from_torchrun()[1] > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return chosen


def stop() -> None:
    """Leave the process group, where there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def is_distributed() -> bool:
    """Whether a process group is initialized."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    return dist.get_rank() if is_distributed() else 0


def world_size() -> int:
    return dist.get_world_size() if is_distributed() else 1


def rank_from_torchrun() -> tuple[int, int]:
    """Rank and number of the processes that torchrun started, whether they have joined each other or not; else (0, 1)."""
    found = {"RANK": os.environ.get("RANK", "0"), "WORLD_SIZE": os.environ.get("WORLD_SIZE", "1")}
    for name, text in found.items():
        if not text.isdecimal():
            raise UserError(f"the environment has {name}={text!r}; unset it, or start with torchrun")
    rank, world = map(int, found.values())
    if rank >= world:
        raise UserError(f"RANK={rank} and WORLD_SIZE={world} in the environment; unset both, or start with torchrun")
    return rank, world


def share(size: int) -> slice:
    """Return the slice of this rank's ``size`` rows among those of all ranks."""
    return slice(rank() * size, (rank() + 1) * size)


def any_rank(flag: bool, device: torch.device) -> bool:
    """Return whether ``flag`` is set on any rank; a collective operation."""
    if world_size() == 1:
        return flag
    value = torch.tensor(float(flag), device=device)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return bool(value)


def gather(value: Tensor, weight: float = 1.0) -> Tensor:
    """All-gather the parts of all ranks, in the order of the ranks; ``weight`` multiplies the gradient of the own part.

    Shape:
        (P / ranks, ...) -> (P, ...).
    """
    gathered: Tensor = _Gather.apply(value.contiguous(), weight)
    return gathered


def sum_over_ranks(value: Tensor) -> Tensor:
    """All-reduce (sum) in the forward and the backward pass. Any shape."""
    total: Tensor = _Sum.apply(value)
    return total


class Rows(NamedTuple):
    """The rows of a table of all pairs that this process computes: all, or those of ``rank``, one of several ``ranks``.

    ``own(shared(x))`` against ``shared(x)`` is such a part of a table; ``gathered`` gives all ranks the result of each row,
    ``total`` the sum. All ranks hold the same P points and call these in the same order.
    """

    # A tuple, since a compiled function knows no other object as the default of an argument.

    rank: int = 0
    ranks: int = 1

    @staticmethod
    def of_this_rank() -> Rows:
        return Rows(rank(), world_size())

    @property
    def are_all(self) -> bool:
        return self.ranks == 1

    def first(self, count: int) -> int:
        """The number of the first own row of ``count``."""
        return self.rank * (count // self.ranks)

    def own(self, values: Tensor, stacked: int = 1) -> Tensor:
        """The own rows; of ``stacked`` sets of rows, one after the other, those of each.

        Shape:
            (stacked * P, ...) -> (stacked * P / ranks, ...).
        """
        if self.are_all:
            return values
        return values.unflatten(0, (stacked, self.ranks, -1))[:, self.rank].flatten(0, 1)

    def shared(self, values: Tensor) -> Tensor:
        """Identity forward; the backward pass all-reduces the gradient."""
        if self.are_all:
            return values
        entered: Tensor = _Shared.apply(values)
        return entered

    def gathered(self, values: Tensor) -> Tensor:
        """The rows of all ranks.

        Shape:
            (P / ranks, ...) -> (P, ...).
        """
        return values if self.are_all else gather(values)

    def total(self, value: Tensor) -> Tensor:
        """The sum of what each rank has found in its own rows. Any shape."""
        return value if self.are_all else gather(value[None]).sum(0)

    def diagonal(self, table: Tensor) -> Tensor:
        """The entries of the own rows of a table at which a row meets itself.

        Shape:
            (P / ranks, P) -> (P / ranks,).
        """
        return table.diagonal(self.first(table.shape[1]))


ALL_ROWS = Rows()


class _Gather(torch.autograd.Function):
    """All-gather whose gradient stays on its rank.

    ``torch.distributed.nn.functional.all_gather`` sums gradients that are the same on all ranks (5.2 ms for 2.9 ms: gloo, 2
    processes, 512 pairs each), cannot be compiled, and is deprecated since PyTorch 2.13, like its ``all_reduce``.
    """

    @staticmethod
    def forward(context: Any, value: Tensor, weight: float) -> Tensor:
        context.weight = weight
        parts = [torch.empty_like(value) for _ in range(world_size())]
        dist.all_gather(parts, value)
        return torch.cat(parts)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = gradients[0]
        return gradient[share(len(gradient) // world_size())] * context.weight, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: Tensor) -> Tensor:
        return _summed(value)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return _summed(gradients[0])


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        return _summed(gradients[0])


def _summed(value: Tensor) -> Tensor:
    total = value.contiguous().clone()
    dist.all_reduce(total)
    return total
