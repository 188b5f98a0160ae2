"""Learning rates over a run."""

import pytest

from patchprint.training import resolve
from patchprint.training.optimizers import learning_rate


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
    assert learning_rate(resolve("doap", batch=2048), 0) == pytest.approx(0.2)
