"""Every recipe trains, along a pinned curve; settings follow the fact sheet and scale with the length of the run."""

import json

import pytest
from torch import nn

import pinned_curves
from patchprint import networks
from patchprint.errors import UserError
from patchprint.networks import weights
from patchprint.training import RECIPES, TrainConfig, resolve
from patchprint.training.optimizers import learning_rate


@pytest.mark.parametrize("recipe", RECIPES)
def test_first_steps_follow_the_pinned_curve(recipe):
    pinned_curves.CURVES.check(recipe, pinned_curves.compute(recipe))


@pytest.mark.parametrize(
    ("recipe", "dropout"),
    [("l2net", 0.0), ("doap", 0.1), ("sosnet", 0.1), ("hardnet", 0.3), ("cdf", 0.3), ("hynet", 0.3), ("sdgmnet", 0.3)],
)
def test_dropout_which_the_curves_leave_out(recipe, dropout):
    config = RECIPES[recipe]()
    network = networks.create(config.network, **config.network_options)
    assert [module.p for module in network.modules() if isinstance(module, nn.Dropout)] == [dropout]


def test_all_published_methods_are_there():
    wanted = "l2net l2net-cs doap doap-binary doap-st doap-st-lm tfeat hardnet hardnet-gor sosnet cdf hynet hynet-sosr"
    wanted += " hardnet-frn sosnet-frn sdgmnet sdgmnet-theta sdgmnet-s sdgmnet-l2"
    assert set(wanted.split()) <= set(RECIPES)
    assert all(RECIPES[name]().recipe == name for name in RECIPES)
    assert all(recipe.__doc__ for recipe in RECIPES.values())


@pytest.mark.parametrize(
    ("recipe", "rates"),
    [
        ("hardnet", {0.0: 10.0, 0.5: 5.0, 1.0: 0.0}),
        ("sdgmnet", {0.0: 1.0, 0.099: 1.0, 0.1: 0.5, 0.3: 0.125, 0.95: 1 / 512}),
        ("l2net", {0.0: 0.01, 0.4: 0.001, 0.8: 0.0001}),
        ("doap", {0.0: 0.1, 0.75: 0.025}),
        ("hynet", {0.0: 0.01, 0.99: 0.01}),
        ("doap-st-lm", {0.0: 0.1, 0.3: 0.1, 0.32: 0.01, 0.65: 0.001}),
    ],
)
@pytest.mark.parametrize("steps", [1000, 100_000])
def test_schedules_rescale_with_the_length_of_the_run(recipe, rates, steps):
    config = resolve(recipe, steps=steps)
    for done, rate in rates.items():
        assert learning_rate(config, round(done * steps)) == pytest.approx(rate, rel=1e-6, abs=1e-12)


def test_rate_of_doap_follows_the_size_of_the_batch():
    assert learning_rate(resolve("doap", batch=1024), 0) == pytest.approx(0.2)


def test_moving_averages_of_sdgm_and_nodes_of_cdf_follow_the_run():
    from patchprint.training.assembly import _create_loss

    assert _create_loss(resolve("sdgmnet")).rate == pytest.approx(0.001)
    assert _create_loss(resolve("sdgmnet", steps=20_000)).rate == pytest.approx(0.01)
    assert _create_loss(resolve("cdf", batch=1024)).bins == 512


def test_config_survives_json():
    config = resolve("hynet", sec=0.5, data=("a", "b"), freeze=("layer1",), network_options={"width": 8})
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert config.network_options == {"dropout": 0.3, "width": 8}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stepz": 3}, "did you mean steps"),
        ({"steps": 0}, "--steps is 0"),
        ({"steps": 2.5}, "steps is 2.5"),
        ({"lr": -1.0}, "--lr is -1"),
        ({"lr": float("nan")}, "--lr is nan"),
        ({"views": 1}, "--views is 1"),
        ({"average": 1.0}, "--average is 1"),
        ({"schedule": "cubic"}, "one of constant, linear, drops, cosine"),
    ],
)
def test_wrong_settings_are_named(changes, words):
    with pytest.raises(ValueError, match=words):
        resolve("hardnet", **changes)


def test_another_network_takes_the_options_that_it_knows():
    assert resolve("hynet", network="tfeat").network_options == {}
    assert resolve("hynet", network="hardnet", network_options={"width": 8}).network_options == {
        "dropout": 0.3,
        "width": 8,
    }
    assert resolve("hardnet-gor", loss="hynet", loss_settings={"alpha": 3.0}).loss_settings == {"alpha": 3.0}
    assert resolve("sdgmnet-shipped", batcher="pairs").batcher_options == {}
    with pytest.raises(UserError, match="network 'tfeat' has no option 'dropout'"):
        resolve("hynet", network="tfeat", network_options={"dropout": 0.1})
    with pytest.raises(UserError, match="loss 'hynet' has no option 'gor'"):
        resolve("hardnet-gor", loss="hynet", loss_settings={"gor": 0.5})


# What a repetition of the run may choose: data, what is written, and what the settings started from before they had a name.
FREE = {"recipe", "data", "log_every", "checkpoint_every", "tensorboard"}


@pytest.mark.parametrize("file", sorted(weights.WEIGHTS_FOLDER.glob("*.safetensors")), ids=lambda file: file.stem)
def test_shipped_recipes_are_the_runs_that_made_the_weights(file):
    record = weights.read_info(file).training
    assert record.recipe == f"{file.stem.replace('.', '-')}-shipped"
    recipe = resolve(record.recipe).to_json()
    assert {name for name in recipe if recipe[name] != record.config[name]} <= FREE


def test_unknown_recipe_gets_a_suggestion():
    with pytest.raises(ValueError, match="did you mean sdgmnet"):
        resolve("sdgmnett")
