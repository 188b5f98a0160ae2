"""What one of several processes does in the test of distributed losses; a file of its own, because they import it by name."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from patchprint.training.step import gather_batch
from support.largest_tensor import LargestTensor
from support.loss_batches import EVERY_LOSS, batch_of, make_loss, random_raw

STEPS, POINTS = 3, 8
COUNT_ALL_PAIRS = ("l2net", "tfeat")  # and refuse a batch of which some are ignored


def train_briefly(variant: str, rank: int = 0, ranks: int = 1) -> dict[str, Any]:
    """Totals, gradients of a shared weight, and statistics after three steps on this rank's part of each batch."""
    loss = make_loss(variant).double()
    weight = torch.eye(8, dtype=torch.float64).add(0.1).requires_grad_()
    totals, gradients = [], []
    ignore = torch.rand(2 * POINTS, 2 * POINTS, generator=torch.Generator().manual_seed(1)) < 0.05
    for step in range(STEPS):
        raw = random_raw(points=POINTS, seed=step).chunk(ranks)[rank] @ weight
        some_ignored = step == 1 and not variant.startswith(COUNT_ALL_PAIRS)
        more = {"ignore": ignore | ignore.T} if some_ignored else {}
        batch = batch_of(raw, progress=0.05 + 0.4 * step, step=step, **more)
        total = loss(gather_batch(batch) if ranks > 1 else batch)["total"]
        (gradient,) = torch.autograd.grad(total, weight)
        if ranks > 1:  # what DistributedDataParallel does
            dist.all_reduce(gradient)
            gradient /= ranks
        totals.append(total.detach())
        gradients.append(gradient)
    return {"totals": totals, "gradients": gradients, "statistics": dict(loss.named_buffers())}


def largest_table(variant: str, rank: int = 0, ranks: int = 1) -> int:
    """Elements of the largest tensor that this rank makes of a batch, forward and backward."""
    raw = random_raw(points=64).chunk(ranks)[rank].requires_grad_()
    batch, loss = batch_of(raw), make_loss(variant).double()
    with LargestTensor() as mode:
        loss(gather_batch(batch) if ranks > 1 else batch)["total"].backward()
    return mode.numel


def run(folder: Path) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    results = {variant: train_briefly(variant, rank, ranks) for variant in EVERY_LOSS}
    tables = {variant: largest_table(variant, rank, ranks) for variant in EVERY_LOSS}
    torch.save({"trained": results, "tables": tables}, folder / f"{rank}.pt")
