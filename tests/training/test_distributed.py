"""Two processes under torchrun are one process with the same global batch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import training_ranks
from patchprint.training import distributed
from patchprint.types import DescriptorBatch
from training_data import losses_of

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Runs of all recipes by two processes."""
    folder = tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command += [str(TESTS / "training_ranks.py"), str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize("recipe", training_ranks.RECIPES)
def test_two_processes_give_the_losses_of_one(recipe, together, tmp_path):
    training_ranks.run(recipe, tmp_path)
    alone, both = (torch.tensor(losses_of(folder / recipe)) for folder in (tmp_path, together))
    assert len(alone) == len(both) == 50
    assert (alone - both).abs().max() < 1e-4


def test_gathering_alone_changes_nothing():
    batch = DescriptorBatch(torch.randn(4, 2, 8), torch.randn(4, 2, 8))
    assert distributed.gather_batch(batch) is batch
    assert distributed.share(4) == slice(0, 4)
