"""From a config to network, loss and learning rate: settings that follow from the run, and parts that do not fit."""

import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.losses import SEC, NormPenalty
from patchprint.training import assembly, resolve
from patchprint.training.assembly import learning_rate, set_rates

CPU = torch.device("cpu")


def loss_of(recipe, **changes):
    return assembly.create(resolve(recipe, **changes), CPU).loss


def test_settings_follow_from_the_run_unless_they_are_given():
    assert loss_of("cdf", batch=256).bins == 128
    assert loss_of("cdf", batch=256, loss_settings={"bins": 7}).bins == 7
    assert loss_of("sdgmnet").rate == pytest.approx(0.001)
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
    with pytest.raises(ValueError, match="loss 'l2net' needs normalized maps, which network 'tfeat' does not have"):
        loss_of("l2net", network="tfeat")
    assert not loss_of("l2net", network="tfeat", loss_settings={"e3": False}).needs_maps


@pytest.mark.parametrize("recipe", ["doap", "doap-st", "hardnet", "sdgmnet"])
def test_a_network_for_bits_needs_a_loss_for_bits(recipe):
    with pytest.raises(ValueError, match=r"--loss .* learns floats, but --network .* describes by bits") as error:
        loss_of(recipe, network_options={"kind": "binary", "dim": 256})
    assert "\n" not in str(error.value)
    assert loss_of(recipe, network_options={"kind": "binary", "dim": 256}, loss="doap-binary").binary


def test_a_loss_for_bits_needs_a_network_for_bits():
    with pytest.raises(ValueError, match="--loss doap-binary learns bits, but --network doap describes by floats"):
        loss_of("doap", loss="doap-binary")
    with pytest.raises(ValueError, match="--loss cdf learns bits, but --network hardnet describes by floats"):
        loss_of("cdf", loss_settings={"binary": True})
    with pytest.raises(ValueError, match="--loss hardnet learns floats"):
        loss_of("hardnet", network="doap-binary", sec=0.1)
    assert loss_of("cdf", loss_settings={"binary": True}, network_options={"kind": "binary"}).binary


def test_center_surround_needs_a_tower_to_start_from_or_says_that_it_has_none():
    with pytest.raises(ValueError, match="l2net-cs starts from a trained tower: give its weights as --init"):
        loss_of("l2net-cs")
    state = assembly.create(resolve("l2net-cs", init="random"), CPU)
    assert all(parameter.requires_grad for parameter in state.network.parameters())


@pytest.mark.parametrize(
    ("recipe", "rates"),
    [
        ("hardnet", {0.0: 10.0, 0.5: 5.0, 1.0: 0.0}),
        ("sdgmnet", {0.0: 1.0, 0.099: 1.0, 0.1: 0.5, 0.3: 0.125, 0.95: 1 / 512}),
        ("l2net", {0.0: 0.01, 0.4: 0.001, 0.8: 0.0001}),
        ("doap", {0.0: 0.1, 0.75: 0.025}),
        ("hynet", {0.0: 0.01, 0.99: 0.01}),
        ("distill", {0.0: 0.00012, 0.15: 0.00156, 0.3: 0.003, 0.65: 0.0015, 1.0: 0.0}),
        ("doap-st-lm", {0.0: 0.1, 0.3: 0.1, 0.32: 0.01, 0.65: 0.001}),
    ],
)
@pytest.mark.parametrize("steps", [1000, 100_000])
def test_schedules_rescale_with_the_length_of_the_run(recipe, rates, steps):
    config = resolve(recipe, steps=steps)
    for done, rate in rates.items():
        assert learning_rate(config, round(done * steps)) == pytest.approx(rate, rel=1e-6, abs=1e-12)


def test_rate_of_doap_follows_the_size_of_the_batch():
    assert learning_rate(resolve("doap", batch=2048), 0) == pytest.approx(0.2)


def test_weight_decay_of_adamw_does_not_pass_through_the_gradient():
    """A step without gradient shrinks weights by rate times decay; Adam would divide the decay by its own size."""
    config = resolve("distill", network_options={"width": 4}, steps=100, weight_decay=0.1, schedule="constant", lr=0.01)
    state = assembly.create(config, torch.device("cpu"))
    weight = next(state.network.parameters())
    before = weight.detach().clone()
    for parameter in state.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    set_rates(config, state.optimizer, 0)
    state.optimizer.step()
    torch.testing.assert_close(weight.detach(), before * (1 - 0.01 * 0.1))


def test_a_warm_up_rises_evenly_to_the_rate_of_the_schedule():
    config = resolve("simclr", lr=0.2, steps=300, warm_up=0.1)
    plain = resolve("simclr", lr=0.2, steps=300, warm_up=0.0)
    assert [learning_rate(config, step) / learning_rate(plain, step) for step in (0, 14, 29, 30, 200)] == [
        pytest.approx(share) for share in (1 / 30, 0.5, 1, 1, 1)
    ]
    with pytest.raises(UserError, match="warm_up is 1"):
        resolve("simclr", warm_up=1.0)
