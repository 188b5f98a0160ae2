"""Two processes with half the batch each see the loss, gradients and statistics of one process with all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from support import loss_ranks
from support.loss_batches import EVERY_LOSS


@pytest.fixture(scope="module")
def by_rank(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    folder: Path = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(loss_ranks.run, args=(2, str(folder)), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_two_processes_equal_one(variant: str, by_rank: list[dict]) -> None:
    alone = loss_ranks.train_briefly(variant)
    assert all(gradient.abs().max() > 1e-6 for gradient in alone["gradients"])
    for results in by_rank:
        torch.testing.assert_close(results[variant], alone, rtol=1e-5, atol=1e-5)
