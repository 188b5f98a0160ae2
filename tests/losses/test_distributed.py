"""Two processes with half the batch each see the loss, gradients and statistics of one process with all of it."""

from pathlib import Path

import pytest
import torch

from support import loss_ranks
from support.loss_batches import EVERY_LOSS, random_raw
from support.processes import run_together


@pytest.fixture(scope="module")
def by_rank(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    folder: Path = tmp_path_factory.mktemp("ranks")
    run_together(2, loss_ranks.run, folder)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_two_processes_equal_one(variant: str, by_rank: list[dict]) -> None:
    alone = loss_ranks.train_briefly(variant)
    assert all(gradient.abs().max() > 1e-6 for gradient in alone["gradients"])
    for results in by_rank:
        torch.testing.assert_close(results["trained"][variant], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_each_process_compares_its_own_anchors_with_all_points(variant: str, by_rank: list[dict]) -> None:
    alone = loss_ranks.largest_table(variant)
    descriptors = random_raw(points=64).numel()
    for results in by_rank:
        # Half of every table of all pairs, and a column in which the second-order term throws what it does not need.
        assert results["tables"][variant] <= max(alone // 2 + 64, descriptors)
