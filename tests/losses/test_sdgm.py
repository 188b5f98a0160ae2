"""SDGM's statistics: the published steady state, warm-up, and how the averages scale with the length of a run."""

import math

import numpy as np
import pytest
import torch

from patchprint.losses.sdgm import SDGMLoss, Spread
from support.loss_batches import batch_of, random_raw

# Last line of the log of the released run on Liberty, 1024 pairs.
POSITIVE, NEGATIVE, RELATIVE = (0.827, 0.202), (1.170, 0.081), (-0.343, 0.218)
POWER_POSITIVE, POWER_NEGATIVE, PSEUDO_LOSS = 279, 293, -0.2104


def simulate(loss: SDGMLoss) -> tuple[float, float, float]:
    """Powers at 1024 pairs and pseudo loss for a million pairs with the logged means and deviations.

    Positive angles are gamma distributed with skew 0.8, negative ones normal; both are independent, as the logged
    deviation of their difference says (0.218^2 = 0.202^2 + 0.081^2).
    """
    random = np.random.default_rng(0)
    shape = (2 / 0.8) ** 2
    gamma = (random.gamma(shape, size=1_000_000) - shape) / math.sqrt(shape)
    positive = torch.from_numpy(POSITIVE[0] + POSITIVE[1] * gamma)
    negative = torch.from_numpy(random.normal(*NEGATIVE, size=1_000_000))
    spreads = [Spread(*torch.tensor(pair, dtype=torch.float64)) for pair in (POSITIVE, NEGATIVE, RELATIVE)]
    plus, minus = loss.weights(positive, negative, *spreads)
    pseudo = loss.alpha * (plus * positive).sum() / plus.sum() - (minus * negative).sum() / minus.sum()
    return 1024 * plus.mean().item(), 1024 * minus.mean().item(), pseudo.item()


def test_steady_state_is_the_published_one() -> None:
    power_positive, power_negative, pseudo = simulate(SDGMLoss())
    assert power_positive == pytest.approx(POWER_POSITIVE, rel=0.02)
    assert power_negative == pytest.approx(POWER_NEGATIVE, rel=0.02)
    assert pseudo == pytest.approx(PSEUDO_LOSS, rel=0.02)


def test_the_step_form_does_not_reach_it() -> None:
    power_positive, power_negative, pseudo = simulate(SDGMLoss(coupled="step"))
    assert (power_positive, power_negative) == (pytest.approx(349, rel=0.02), pytest.approx(366, rel=0.02))
    assert pseudo == pytest.approx(-0.228, rel=0.02)


def test_averages_look_back_over_the_same_part_of_any_run() -> None:
    rates = {steps: SDGMLoss(total_steps=steps).rate for steps in (None, 200_000, 20_000, 100)}
    assert rates == {None: 0.001, 200_000: 0.001, 20_000: pytest.approx(0.01), 100: 0.1}


def test_initial_power_is_a_ramp_that_grows_with_the_batch() -> None:
    loss = SDGMLoss(rate=0.5)
    loss(batch_of(random_raw(points=32), progress=0.0))
    expected = 0.5 * (10_000 / 1024) * 32 + 0.5 * 32  # in warm-up all 32 weights are 1
    assert loss.powers.tolist() == pytest.approx([expected, expected])
    no_ramp = SDGMLoss(initial_power=1.0)
    no_ramp(batch_of(random_raw(points=32), progress=0.0))
    assert no_ramp.powers.tolist() == pytest.approx([32, 32])


def test_warm_up_ends_at_a_tenth_and_the_guard_begins() -> None:
    # Two anchors 0.3 rad apart: hard negatives in warm-up, false ones afterwards.
    angles = torch.tensor([[0.0, 0.1], [0.3, 2.5], [4.0, 4.2]], dtype=torch.float64)
    raw = torch.stack([angles.cos(), angles.sin()], -1)
    seen = {progress: SDGMLoss()(batch_of(raw, progress=progress)) for progress in (0.0, 0.09, 0.1, 1.0)}
    early = torch.tensor([0.2, 0.2, 1.5]).mean().item()
    late = torch.tensor([2 * math.pi - 4.2, 1.5, 1.5]).mean().item()
    assert [seen[p]["negative"].item() for p in (0.0, 0.09)] == pytest.approx([early] * 2, abs=1e-6)
    assert [seen[p]["negative"].item() for p in (0.1, 1.0)] == pytest.approx([late] * 2, abs=1e-6)
    assert seen[0.0]["power_positive"].item() > seen[0.1]["power_positive"].item()
