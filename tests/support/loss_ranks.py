"""What one of several processes does in the test of distributed losses; a file of its own, so that it can be spawned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from patchprint.training.distributed import gather_batch
from support.loss_batches import EVERY_LOSS, batch_of, make_loss, random_raw

STEPS = 3


def train_briefly(variant: str, rank: int = 0, ranks: int = 1) -> dict[str, Any]:
    """Totals, gradients of a shared weight, and statistics after three steps on this rank's part of each batch."""
    loss = make_loss(variant).double()
    weight = torch.eye(8, dtype=torch.float64).add(0.1).requires_grad_()
    totals, gradients = [], []
    for step in range(STEPS):
        raw = random_raw(points=8, seed=step).chunk(ranks)[rank] @ weight
        batch = batch_of(raw, progress=0.05 + 0.4 * step, step=step)
        total = loss(gather_batch(batch) if ranks > 1 else batch)["total"]
        (gradient,) = torch.autograd.grad(total, weight)
        if ranks > 1:  # what DistributedDataParallel does
            dist.all_reduce(gradient)
            gradient /= ranks
        totals.append(total.detach())
        gradients.append(gradient)
    return {"totals": totals, "gradients": gradients, "statistics": dict(loss.named_buffers())}


def run(rank: int, ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    try:
        results = {variant: train_briefly(variant, rank, ranks) for variant in EVERY_LOSS}
        torch.save(results, Path(folder) / f"{rank}.pt")
    finally:
        dist.destroy_process_group()
