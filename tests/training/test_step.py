"""One step of training against the formulas and passes of the papers; the largest batch that fits."""

import dataclasses

import pytest
import torch

from patchprint import losses
from patchprint.losses import DescriptorBatch
from patchprint.training import assembly, resolve
from patchprint.training.step import TrainStep, largest_batch
from support import training_data
from support.training_data import images, narrow, short_run


def test_the_average_is_the_published_formula(tmp_path):
    config = resolve("hardnet", **{**training_data.SHORT, "network_options": narrow("hardnet"), "average": 0.7})
    step = TrainStep(config, images().split("train"), assembly.create(config, torch.device("cpu")))
    expected = step.state.network.features[0].weight.detach().clone()
    for _ in range(4):
        step.run()
        expected = 0.7 * expected + 0.3 * step.state.network.features[0].weight.detach()
    assert torch.allclose(step.state.average["features.0.weight"], expected, atol=1e-6)


def test_one_pass_equals_two_passes_of_the_papers(tmp_path):
    """Anchors and positives side by side in one pass give the loss and the running statistics of two passes."""
    changes = {**training_data.SHORT, "network_options": {**narrow("hardnet"), "dropout": 0.0}, "lr": 0.0}
    config = resolve("hardnet", **changes)
    step = TrainStep(config, images().split("train"), assembly.create(config, torch.device("cpu")))
    patches, *_ = step._cut_patches(step.step)
    network = assembly.create(config, torch.device("cpu")).network.train()
    raw = [network.forward_features(half)[0] for half in patches.chunk(2)]
    unit = [network.head(value) for value in raw]
    expected = losses.create("hardnet")(DescriptorBatch(torch.stack(unit, 1), torch.stack(raw, 1)))["total"]
    step.run()
    assert torch.allclose(step.losses["total"], expected, atol=1e-5)
    ours, theirs = (dict(n.named_buffers())["features.1.running_mean"] for n in (step.state.network, network))
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_whole_groups_are_turned_alike_and_reach_the_loss_with_their_labels():
    changes = {**training_data.SHORT, "network_options": {**narrow("hardnet"), "dropout": 0.0}, "batch": 32, "lr": 0.0}
    config, source = resolve("doap", **changes), images(upright=True, ragged=True).split("train")
    step = TrainStep(config, source, assembly.create(config, torch.device("cpu")))
    patches, valid, ignore, label, _ = step._cut_patches(step.step)
    assert patches.shape == (32, 1, 32, 32) and valid.shape == (32, 1) and ignore is None
    batch = step._batcher.batch(step.step)
    plain = source.sample(batch.points, batch.views, 32)[:, 0]
    ways = [torch.rot90(turned, quarter, (2, 3)) for turned in (plain, plain.flip(3)) for quarter in range(4)]
    way = torch.stack([(patches - each).abs().mean((1, 2, 3)) for each in ways]).argmin(0)
    for group in label.unique():
        assert len(way[label == group].unique()) == 1
    assert len(way.unique()) > 2
    network = assembly.create(config, torch.device("cpu")).network.train()
    raw = network.forward_features(patches)[0]
    described = DescriptorBatch(network.head(raw)[:, None], raw[:, None], valid=valid, label=label)
    step.run()
    assert torch.allclose(step.losses["total"], losses.create("doap")(described)["total"], atol=1e-6)
    assert 0 < int(step.losses["queries"]) == int(valid.sum()) <= 32


def test_out_of_memory_names_a_batch_that_fits(tmp_path, monkeypatch):
    original = TrainStep._cut_patches

    def limited(self, step):
        if self.config.batch > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, step)

    monkeypatch.setattr(TrainStep, "_cut_patches", limited)
    with pytest.raises(ValueError, match="too little memory for --batch 64; give --batch 8, which fits"):
        short_run("tfeat", tmp_path / "run", batch=64)
    config = resolve("tfeat", **training_data.SHORT)
    assert largest_batch(dataclasses.replace(config, batch=6), images().split("train")) == 3


def test_a_smaller_batch_is_tried_with_its_teacher():
    config = resolve("distill", **{**training_data.SHORT, "teacher": ("patchprint.tiny",), "batch": 8})
    assert largest_batch(config, images().split("train")) == 4
