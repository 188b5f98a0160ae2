"""Recipes train, along a pinned curve; settings follow the fact sheet and scale with the length of the run."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from patchprint import networks
from patchprint.training import RECIPES, assembly, resolve
from support import pinned_curves
from support.slowness import slow_but


@pytest.mark.parametrize("recipe", slow_but({"hardnet", "doap-st", "sdgmnet", "metric-lite0"}, pinned_curves.NAMES))
def test_first_steps_follow_the_pinned_curve(recipe):
    pinned_curves.CURVES.check(recipe, pinned_curves.compute(recipe))


@pytest.mark.parametrize(
    ("recipe", "dropout"),
    [
        ("l2net", 0.0),
        ("doap", 0.1),
        ("doap-rome", 0.5),
        ("sosnet", 0.1),
        ("hardnet", 0.3),
        ("cdf", 0.3),
        ("hynet", 0.3),
        ("sdgmnet", 0.3),
    ],
)
def test_dropout_which_the_curves_leave_out(recipe, dropout):
    config = RECIPES[recipe]()
    network = networks.create(config.network, **config.network_options)
    assert [module.p for module in network.modules() if isinstance(module, nn.Dropout)] == [dropout]


@pytest.mark.parametrize("recipe", ["doap-hpatches", "doap-st-hpatches", "doap-st-lm", "doap-rome", "doap-binary-rome"])
def test_nothing_is_held_out_where_steps_are_counted_in_all_groups(recipe):
    """1000 batches are led by 1000 groups of RomePatches, 2850 pairs are those of all 76 sequences."""
    assert not RECIPES[recipe]().hold_out


def test_no_curve_is_left_of_a_recipe_that_is_gone():
    assert {file.stem for file in pinned_curves.CURVES.folder.iterdir()} == set(pinned_curves.NAMES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_carries_its_name_and_says_what_it_is(name):
    assert RECIPES[name]().recipe == name
    assert RECIPES[name].__doc__


def test_moving_averages_of_sdgm_and_nodes_of_cdf_follow_the_run():
    from patchprint.training.assembly import _create_loss

    assert _create_loss(resolve("sdgmnet")).rate == pytest.approx(0.001)
    assert _create_loss(resolve("sdgmnet", steps=20_000)).rate == pytest.approx(0.01)
    assert _create_loss(resolve("cdf", batch=1024)).bins == 512


@pytest.mark.parametrize("recipe", ["hynet", "hynet-sosr", "sosnet-frn", "hardnet-frn", "hardnet-frn-hynet", "sdgmnet"])
def test_recipes_with_a_papers_name_have_its_input(recipe):
    """FRN meets the patch as it is (D2 of the review); what is standardized first has another name."""
    config = RECIPES[recipe]()
    assert not networks.create(config.network, **config.network_options).cancels_brightness


def test_what_is_standardized_says_so_and_is_the_same_otherwise():
    paper, ours = RECIPES["sdgmnet"](), RECIPES["sdgmnet-standardized"]()
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
    config, own = RECIPES["hardnet-frn-hynet"](), RECIPES["hynet"]()
    same = ("network", "optimizer", "lr", "batch", "augmentation", "steps", "schedule")
    assert all(getattr(config, name) == getattr(own, name) for name in same)
    assert (RECIPES["hynet-bn"]().loss, RECIPES["hynet-bn"]().network) == ("hynet", "hardnet")
