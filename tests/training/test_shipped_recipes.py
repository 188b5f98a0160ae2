"""The recipes of the shipped weights are the runs that made them."""

from __future__ import annotations

import dataclasses

import pytest

from patchprint import networks
from patchprint.networks import weights
from patchprint.training import TrainConfig, resolve

# What a repetition of the run may choose: data, what is written, and what the settings started from before they had a name.
FREE = {"recipe", "data", "log_every", "checkpoint_every", "tensorboard"}


@pytest.mark.parametrize("file", sorted(weights.WEIGHTS_FOLDER.glob("*.safetensors")), ids=lambda file: file.stem)
def test_shipped_recipes_are_the_runs_that_made_the_weights(file):
    record = weights.read_info(file).training
    assert record.recipe == f"{file.stem.replace('.', '-')}-shipped"
    # Settings that came later had their defaults then.
    recipe, made_with = resolve(record.recipe), TrainConfig.from_json(record.config)
    if made_with.batcher == "groups" and made_with.views == 2:
        # Groups were cut to --views patches once, which is what classes does: the same batches, bit by bit.
        made_with = dataclasses.replace(made_with, batcher="classes")
    # A run notes the checksum of its teacher, in float32; the package has it in half precision.
    made_with = dataclasses.replace(made_with, teacher_sha256=())
    names = [field.name for field in dataclasses.fields(TrainConfig)]
    assert {name for name in names if getattr(recipe, name) != getattr(made_with, name)} <= FREE | {"network_options"}
    # Runs record the options that were given, weights all that there were: with today's they must be the same.
    made = networks.create(made_with.network, **weights.read_info(file).options)
    assert networks.create(recipe.network, **recipe.network_options).info.options == made.info.options
