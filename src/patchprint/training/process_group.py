"""Distributed training: every rank describes its share of the batch, all ranks compute the loss of all.

In-batch negatives must span all ranks, so the descriptors are gathered before the loss. Each rank then computes the same
loss over the global batch, of its tables of all pairs only the rows of its own anchors (``ranks.Rows``). The gradient flows
back into the rank's own share only, multiplied by the number of ranks, because DistributedDataParallel divides the sum over
ranks by it.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor

from patchprint.common import distributed
from patchprint.common.devices import choose_device
from patchprint.losses import DescriptorBatch


def start(device: str) -> torch.device:
    """The device of this process; joins the group where torchrun started several (NCCL on GPUs, gloo elsewhere)."""
    chosen = choose_device(device)
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", chosen.index or 0)))
        torch.cuda.set_device(chosen)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return chosen


def stop() -> None:
    """Leave the process group, where there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()


def agree(flag: bool, device: torch.device) -> bool:
    """Return whether ``flag`` is set on any rank; a collective operation."""
    if distributed.world_size() == 1:
        return flag
    value = torch.tensor(float(flag), device=device)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return bool(value)


def gather_batch(batch: DescriptorBatch) -> DescriptorBatch:
    """Gather the batch of all ranks, in the order of the ranks.

    ``ignore`` is left as it is: every rank knows it for the global batch already.

    Shape:
        desc, raw, valid, label, teacher and maps (P / ranks, ...) -> (P, ...).
    """
    if distributed.world_size() == 1:
        return batch
    return DescriptorBatch(
        desc=_gather(batch.desc),
        raw=_gather(batch.raw),
        valid=None if batch.valid is None else _gather(batch.valid.to(torch.uint8)).bool(),
        ignore=batch.ignore,
        maps=None if batch.maps is None else tuple(_gather(maps) for maps in batch.maps),
        progress=batch.progress,
        step=batch.step,
        label=None if batch.label is None else _gather(batch.label),
        teacher=None if batch.teacher is None else _gather(batch.teacher),
        rows=distributed.Rows.of_this_rank(),
    )


def _gather(value: Tensor) -> Tensor:
    return distributed.gather(value, weight=distributed.world_size())
