"""Several processes are one process with the same global batch, whether they divide the images or not."""

import json

import pytest
import torch

from patchprint.common import distributed as ranks
from patchprint.losses import DescriptorBatch
from patchprint.training.run_folder import read_metrics
from patchprint.training.step import gather_batch
from support import training_ranks
from support.processes import run_together

FOUR = "sdgmnet"  # what four processes learn, too


def together(processes, recipes, data, folder):
    """The runs of some recipes by several processes."""
    folder.mkdir()
    run_together(processes, training_ranks.run_all, recipes, data, folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    training_ranks.write_data(folder)
    return folder


@pytest.fixture(scope="module")
def two(data, tmp_path_factory):
    return together(2, training_ranks.RECIPES, data, tmp_path_factory.mktemp("runs") / "two")


def curves(run):
    """What a run logged of every step, (S, N), and what was measured of its last weights."""
    lines = read_metrics(run / "metrics.jsonl")
    steps = [line for line in lines if "loss/total" in line]
    names = [name for name in steps[0] if name.startswith(("loss/", "norm/", "distance/"))]
    judged = [value for line in lines for name, value in line.items() if name.startswith("validation/")]
    return torch.tensor([[line[name] for name in names] for line in steps]), judged


def assert_same_run(one, other):
    (alone, judged_alone), (together, judged_together) = curves(one), curves(other)
    assert len(alone) == training_ranks.STEPS
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)
    assert judged_together == pytest.approx(judged_alone)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", training_ranks.RECIPES)
def test_several_processes_learn_what_one_does(recipe, data, two, tmp_path):
    training_ranks.run(recipe, data, tmp_path)
    assert_same_run(tmp_path / recipe, two / recipe)
    if recipe == FOUR:
        assert_same_run(tmp_path / recipe, together(4, [recipe], data, tmp_path / "four") / recipe)
        held = [json.loads((tmp_path / "four" / f"held-{rank}.json").read_text()) for rank in range(4)]
        assert len(set(held)) == 1
        assert 2 * held[0] == json.loads((two / "held-0.json").read_text())


def test_labels_and_what_is_valid_come_from_all_ranks(monkeypatch):
    def both_ranks(parts, value):
        for part in parts:
            part.copy_(value)

    monkeypatch.setattr(ranks, "world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_gather", both_ranks)
    valid, label = torch.tensor([[True], [False], [True], [True]]), torch.tensor([3, 3, 5, 5])
    teacher = torch.randn(4, 1, 5)
    batch = DescriptorBatch(torch.randn(4, 1, 8), torch.randn(4, 1, 8), valid=valid, label=label, teacher=teacher)
    gathered = gather_batch(batch)
    assert torch.equal(gathered.label, label.repeat(2))
    assert torch.equal(gathered.valid, valid.repeat(2, 1))
    assert torch.equal(gathered.teacher, teacher.repeat(2, 1, 1))


def test_gathering_alone_changes_nothing():
    batch = DescriptorBatch(torch.randn(4, 2, 8), torch.randn(4, 2, 8))
    assert gather_batch(batch) is batch
    assert ranks.share(4) == slice(0, 4)
