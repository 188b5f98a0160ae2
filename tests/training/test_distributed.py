"""Two processes under torchrun are one process with the same global batch."""

import subprocess
import sys

import pytest
import torch

from patchprint.training import distributed
from patchprint.types import DescriptorBatch
from support import training_ranks
from support.checkout import environment
from support.training_data import losses_of


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Runs of all recipes by two processes."""
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [training_ranks.__file__, str(folder)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("recipe", training_ranks.RECIPES)
def test_two_processes_give_the_losses_of_one(recipe, together, tmp_path):
    training_ranks.run(recipe, tmp_path)
    alone, both = (torch.tensor(losses_of(folder / recipe)) for folder in (tmp_path, together))
    assert len(alone) == len(both) == 50
    assert (alone - both).abs().max() < 1e-4


def test_labels_and_what_is_valid_come_from_all_ranks(monkeypatch):
    def both_ranks(parts, value):
        for part in parts:
            part.copy_(value)

    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(distributed.dist, "all_gather", both_ranks)
    valid, label = torch.tensor([[True], [False], [True], [True]]), torch.tensor([3, 3, 5, 5])
    teacher = torch.randn(4, 1, 5)
    batch = DescriptorBatch(torch.randn(4, 1, 8), torch.randn(4, 1, 8), valid=valid, label=label, teacher=teacher)
    gathered = distributed.gather_batch(batch)
    assert torch.equal(gathered.label, label.repeat(2))
    assert torch.equal(gathered.valid, valid.repeat(2, 1))
    assert torch.equal(gathered.teacher, teacher.repeat(2, 1, 1))


def test_gathering_alone_changes_nothing():
    batch = DescriptorBatch(torch.randn(4, 2, 8), torch.randn(4, 2, 8))
    assert distributed.gather_batch(batch) is batch
    assert distributed.share(4) == slice(0, 4)
