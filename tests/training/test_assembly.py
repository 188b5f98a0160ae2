"""From a config to network and loss: settings that follow from the run, and parts that do not fit."""

import pytest
import torch

from patchprint.losses import SEC, NormPenalty
from patchprint.training import assembly, resolve

CPU = torch.device("cpu")


def loss_of(recipe, **changes):
    return assembly.create(resolve(recipe, **changes), CPU).loss


def test_settings_follow_from_the_run_unless_they_are_given():
    assert loss_of("cdf", batch=256).bins == 128
    assert loss_of("cdf", batch=256, loss_settings={"bins": 7}).bins == 7
    assert loss_of("sdgmnet", steps=20_000).rate == pytest.approx(0.01)
    assert loss_of("hardnet-gor", seed=5).seed == 5
    assert loss_of("sosnet", steps=10, seed=5).neighbors == 8


def test_norms_are_kept_together_or_small():
    sec = loss_of("hardnet", sec=0.5, sec_momentum=0.1)
    assert isinstance(sec, SEC)
    assert (sec.weight, sec.deviation.momentum) == (0.5, 0.1)
    assert loss_of("hardnet", sec=0.5).deviation.momentum == 1.0
    penalty = loss_of("hardnet", norm_penalty=0.005)
    assert isinstance(penalty, NormPenalty)
    assert penalty.weight == 0.005
    assert not isinstance(loss_of("hardnet"), SEC | NormPenalty)


def test_a_loss_that_needs_maps_refuses_a_network_without_them():
    with pytest.raises(ValueError, match="loss 'l2net' needs normalised maps, which network 'tfeat' does not have"):
        loss_of("l2net", network="tfeat")
    assert not loss_of("l2net", network="tfeat", loss_settings={"e3": False}).needs_maps


@pytest.mark.parametrize("recipe", ["doap", "doap-st", "hardnet", "sdgmnet"])
def test_a_network_for_bits_needs_a_loss_for_bits(recipe):
    with pytest.raises(ValueError, match=r"--network-options kind=binary.*--loss .* does not learn") as error:
        loss_of(recipe, network_options={"kind": "binary", "dim": 256})
    assert "\n" not in str(error.value)
    assert loss_of(recipe, network_options={"kind": "binary", "dim": 256}, loss="doap-binary").binary


def test_a_loss_for_bits_needs_a_network_for_bits():
    with pytest.raises(ValueError, match="--loss doap-binary learns bits, but --network doap describes by floats"):
        loss_of("doap", loss="doap-binary")
    with pytest.raises(ValueError, match="--loss cdf learns bits, but --network hardnet describes by floats"):
        loss_of("cdf", loss_settings={"binary": True})
    with pytest.raises(ValueError, match="--loss hardnet does not learn"):
        loss_of("hardnet", network="doap-binary", sec=0.1)
    assert loss_of("cdf", loss_settings={"binary": True}, network_options={"kind": "binary"}).binary


def test_centre_surround_needs_a_tower_to_start_from_or_says_that_it_has_none():
    with pytest.raises(ValueError, match="l2net-cs starts from a trained tower: give its weights as --init"):
        loss_of("l2net-cs")
    state = assembly.create(resolve("l2net-cs", init="random"), CPU)
    assert all(parameter.requires_grad for parameter in state.network.parameters())


def test_unknown_losses_and_settings_are_answered_with_close_ones():
    with pytest.raises(ValueError, match="there is no loss 'hradnet'; did you mean hardnet"):
        loss_of("hardnet", loss="hradnet")
    with pytest.raises(ValueError, match="no option 'magrin'; did you mean margin"):
        loss_of("hardnet", loss_settings={"magrin": 1.0})
