"""Every batcher that a config can name, made from it."""

import inspect

import pytest
import torch

from patchprint.training import batchers, resolve
from support.training_data import SHORT, images, with_mined_labels


def config(name, **changes):
    return resolve("hardnet", **{**SHORT, "batcher": name, "batch": 16, **changes})


@pytest.mark.parametrize("name", batchers.BATCHERS)
def test_batches_hold_what_the_config_says(name):
    options = {"batcher_options": {"run": 8}} if name == "neighbors" else {}
    source = with_mined_labels(images(scenes=4))
    batch = batchers.create(config(name, views=2, **options), source).batch(torch.tensor(0))
    distinct = batch.points * 100 + batch.views[:, 0] if name == "instances" else batch.points
    assert len(distinct.unique()) == len(batch.points) == 16
    assert batch.views.shape == (16, 2)
    assert ((batch.views[:, 0] == batch.views[:, 1]) == (name == "instances")).all()
    assert (batch.views < source.num_views[batch.points][:, None]).all()


def test_the_seed_of_the_config_decides():
    chosen = [batchers.create(config("pairs", seed=seed), images()).batch(torch.tensor(3)).points for seed in (1, 1, 2)]
    assert torch.equal(chosen[0], chosen[1])
    assert not torch.equal(chosen[0], chosen[2])


def test_options_are_the_keywords_of_each():
    assert batchers.option_names("pairs") == []
    assert batchers.option_names("neighbors") == ["run"]
    for name, make in batchers.BATCHERS.items():
        assert set(batchers.option_names(name)) <= set(inspect.signature(make).parameters)


@pytest.mark.parametrize(("points", "advice"), [(12, "give --batch 8 or more data"), (1, "give more data")])
def test_too_few_points_are_said_with_what_would_do(points, advice):
    source = images().select(torch.arange(points))
    with pytest.raises(ValueError, match=f"the data have {points} points .* fewer than --batch 16; {advice}"):
        batchers.create(config("pairs"), source)
