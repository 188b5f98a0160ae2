"""Learning rates over a run."""

import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.training import assembly, resolve
from patchprint.training.optimizers import learning_rate, set_rates


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
