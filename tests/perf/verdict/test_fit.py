"""The fit of the verdict finds the logistic function that made the answers."""

from __future__ import annotations

import numpy as np

from perf.verdict.fit import logistic


def test_the_weights_that_made_the_answers_come_out() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal((5.0, 0.0), (3.0, 1.0), (20_000, 2))
    probability = 1 / (1 + np.exp(-(-4.0 + 0.8 * numbers[:, 0] - 1.5 * numbers[:, 1])))
    constant, weights = logistic(numbers, rng.random(len(numbers)) < probability)
    np.testing.assert_allclose([constant, *weights], [-4.0, 0.8, -1.5], atol=0.15)


def test_both_answers_count_alike() -> None:
    """Ten times as many examples of one kind leave the function where it is."""
    rng = np.random.default_rng(1)
    right, wrong = rng.normal(1, 1, (3000, 1)), rng.normal(-1, 1, (3000, 1))
    numbers, answers = np.concatenate([right, wrong]), np.arange(6000) < 3000
    more = np.concatenate([right, *[wrong] * 10])
    constant, weights = logistic(numbers, answers)
    again, same = logistic(more, np.arange(len(more)) < 3000)
    np.testing.assert_allclose([again, *same], [constant, *weights], atol=0.02)
