"""Recipes train, along a pinned curve; settings follow the fact sheet and scale with the length of the run."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from patchprint import networks
from patchprint.common.errors import UserError
from patchprint.networks import weights
from patchprint.training import RECIPES, assembly, resolve
from support import pinned_curves
from support.slowness import slow_but


@pytest.mark.parametrize("recipe", slow_but({"hardnet", "doap-st", "sdgmnet", "metric-lite0"}, pinned_curves.NAMES))
def test_first_steps_follow_the_pinned_curve(recipe):
    pinned_curves.CURVES.check(recipe, pinned_curves.compute(recipe))


@pytest.mark.parametrize(
    ("recipe", "dropout"),
    zip(
        ["l2net", "doap", "doap-rome", "sosnet", "hardnet", "cdf", "hynet", "sdgmnet"],
        (0, 0.1, 0.5, 0.1, 0.3, 0.3, 0.3, 0.3),
        strict=True,
    ),
)
def test_dropout_which_the_curves_leave_out(recipe, dropout):
    config = RECIPES[recipe].config
    network = networks.create(config.network, **config.network_options)
    assert [module.p for module in network.modules() if isinstance(module, nn.Dropout)] == [dropout]


@pytest.mark.parametrize("recipe", ["doap-hpatches", "doap-st-hpatches", "doap-st-lm", "doap-rome", "doap-binary-rome"])
def test_nothing_is_held_out_where_steps_are_counted_in_all_groups(recipe):
    """1000 batches are led by 1000 groups of RomePatches, 2850 pairs are those of all 76 sequences."""
    assert not RECIPES[recipe].config.hold_out


def test_no_curve_is_left_of_a_recipe_that_is_gone():
    assert {file.stem for file in pinned_curves.CURVES.folder.iterdir()} == set(pinned_curves.NAMES)


@pytest.mark.parametrize("recipe", ["hynet", "hynet-sosr", "sosnet-frn", "hardnet-frn", "hardnet-frn-hynet", "sdgmnet"])
def test_recipes_with_a_papers_name_have_its_input(recipe):
    """FRN meets the patch as it is (D2 of the review); what is standardized first has another name."""
    config = RECIPES[recipe].config
    assert not networks.create(config.network, **config.network_options).cancels_brightness


def test_what_is_standardized_says_so_and_is_the_same_otherwise():
    paper, ours = RECIPES["sdgmnet"].config, RECIPES["sdgmnet-standardized"].config
    assert networks.create(ours.network, **ours.network_options).cancels_brightness
    changed = {"recipe": "sdgmnet", "network_options": {"dropout": 0.3}}
    assert dataclasses.replace(ours, **changed) == paper


def test_the_two_hardnets_on_frn_are_those_of_two_papers():
    sdgm, hynet = (
        assembly.create(resolve(name, network_options={"width": 4}), torch.device("cpu")).loss
        for name in ("hardnet-frn", "hardnet-frn-hynet")
    )
    assert (sdgm.guard, sdgm.active_only) == (pytest.approx(2 * math.sin(0.3)), True)
    assert (hynet.guard, hynet.active_only, hynet.margin) == (0.008, False, 1.0)
    config, own = RECIPES["hardnet-frn-hynet"].config, RECIPES["hynet"].config
    same = ("network", "optimizer", "lr", "batch", "augmentation", "steps", "schedule")
    assert all(getattr(config, name) == getattr(own, name) for name in same)
    assert (RECIPES["hynet-bn"].config.loss, RECIPES["hynet-bn"].config.network) == ("hynet", "hardnet")


@pytest.mark.parametrize("info", weights.list_weights(), ids=lambda info: info.name)
def test_shipped_recipes_repeat_the_runs_that_made_the_weights(info):
    config, made_with = RECIPES[info.training.recipe].config, info.training.config
    assert info.options.items() <= networks.create(config.network, **config.network_options).info.options.items()
    assert all(getattr(config, name) == made_with[name] for name in ("loss", "steps", "batch", "lr", "augmentation"))
    assert (config.data, config.teacher_sha256, config.seed) == ((), (), made_with["seed"])


def test_another_network_takes_the_options_that_it_knows():
    assert resolve("hynet", network="tfeat").network_options == {}
    options = resolve("hynet", network="hardnet", network_options={"width": 8}).network_options
    assert options == {"dropout": 0.3, "width": 8}
    assert resolve("hardnet-gor", loss="hynet", loss_settings={"alpha": 3.0}).loss_settings == {"alpha": 3.0}
    assert resolve("patchprint-shipped", batcher="pairs").batcher_options == {}
    with pytest.raises(UserError, match="network 'tfeat' has no option 'dropout'"):
        resolve("hynet", network="tfeat", network_options={"dropout": 0.1})
    with pytest.raises(UserError, match="loss 'hynet' has no option 'gor'"):
        resolve("hardnet-gor", loss="hynet", loss_settings={"gor": 0.5})
