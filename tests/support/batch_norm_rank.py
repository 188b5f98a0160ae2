"""One process of the test of batch norm across ranks; a module of its own, because other processes import it by name."""

import copy
from pathlib import Path

import torch
from torch import Tensor

from patchprint.common import distributed
from patchprint.networks.blocks import ViewBatchNorm2d


def normalize_on_rank(layer: ViewBatchNorm2d, x: Tensor, weight: Tensor, out: Path) -> None:
    """Normalise this rank's share of ``x``; save the result, the gradient and the running statistics."""
    rank, world = distributed.rank(), distributed.world_size()
    layer = copy.deepcopy(
        layer
    )  # starting shares the memory of tensors, and the running statistics are changed in place
    mine = part_of(x, rank, world, layer.num_views).clone().requires_grad_()
    result = layer(mine)
    (result * part_of(weight, rank, world, layer.num_views)).sum().backward()
    torch.save({"result": result.detach(), "grad": mine.grad, "state": layer.state_dict()}, out / f"{rank}.pt")


def part_of(x: Tensor, rank: int, world: int, views: int) -> Tensor:
    """The share of one rank: some points, in all views, view-major."""
    return x.unflatten(0, (views, world, -1))[:, rank].flatten(0, 1)
