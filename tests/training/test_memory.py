"""Too little memory: the batch that would fit is found."""

import dataclasses

import pytest
import torch

from patchprint.training import memory, resolve
from patchprint.training.step import TrainStep
from support import training_data
from support.training_data import images, short_run


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
    assert memory.largest_batch(dataclasses.replace(config, batch=6), images().split("train")) == 3


def test_a_smaller_batch_is_tried_with_its_teacher():
    config = resolve("distill", **{**training_data.SHORT, "teacher": ("hardnet.small",), "batch": 8})
    assert memory.largest_batch(config, images().split("train")) == 4
