"""The metric-learning losses: slow versions, the library where it agrees, and batches with nothing to learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from loss_batches import random_raw
from patchprint.losses.metric import NormalizedNPair, SemiHardTriplet, TupletMargin
from reference import metric_losses

LABELS = torch.tensor([3, 7, 3, 5, 7, 3, 9, 5])  # classes of 3, 2, 2 and 1 samples
CASES = {
    "semi-hard": (SemiHardTriplet, metric_losses.semi_hard_triplet),
    "n-pair": (NormalizedNPair, metric_losses.normalized_n_pair),
    "tuplet": (TupletMargin, metric_losses.tuplet_margin),
}


def embeddings(seed: int = 0) -> Tensor:
    centers = random_raw(10, 1, 6, seed=seed, noise=0.0)[LABELS, 0]
    return centers + random_raw(8, 1, 6, seed=seed + 100, noise=0.0)[:, 0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name: str, seed: int) -> None:
    make, reference = CASES[name]
    x = embeddings(seed).requires_grad_()
    total = make()(x, LABELS)
    assert total.item() == pytest.approx(reference(x.tolist(), LABELS.tolist()), abs=1e-6, rel=1e-6)
    (gradient,) = torch.autograd.grad(total, x)
    expected = np.zeros(x.shape)
    for index in np.ndindex(*x.shape):
        values = []
        for sign in (1, -1):
            moved = x.detach().clone()
            moved[index] += sign * 1e-6
            values.append(reference(moved.tolist(), LABELS.tolist()))
        expected[index] = (values[0] - values[1]) / 2e-6
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-4)


def test_semi_hard_takes_the_next_negative_and_else_the_farthest() -> None:
    # On a circle: anchor 0 deg, positive 60 deg; negatives at 30, 80 and 120 deg. Beyond 60 the nearest is 80.
    degrees = torch.deg2rad(torch.tensor([0.0, 60.0, 30.0, 80.0, 120.0], dtype=torch.float64))
    x = torch.stack([degrees.cos(), degrees.sin()], 1)

    def squared(angle: float) -> float:
        return 2 - 2 * np.cos(np.deg2rad(angle))

    labels = torch.tensor([0, 0, 1, 2, 3])
    # From 60 deg all negatives are at most 60 away: 30, 20, and 60 itself, which is not strictly farther: the farthest.
    loss = SemiHardTriplet(margin=1.0)(x, labels)
    first, second = 1.0 + squared(60) - squared(80), 1.0 + squared(60) - squared(60)
    assert loss.item() == pytest.approx((first + second) / 2, abs=1e-6)


def test_tuplet_margin_agrees_with_the_library() -> None:
    library = pytest.importorskip("pytorch_metric_learning.losses")
    x = embeddings()
    ours = TupletMargin(variance_weight=0.0)(x, LABELS)
    theirs = library.TupletMarginLoss(margin=float(np.rad2deg(0.1)), scale=64)(x, LABELS)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)
    variance = TupletMargin(variance_weight=1.0)(x, LABELS) - ours
    theirs = library.IntraPairVarianceLoss(pos_eps=0.01, neg_eps=0.01)(x, LABELS)
    assert variance.item() == pytest.approx(theirs.item(), abs=1e-6)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [0, 0, 0, 0]], ids=["no positives", "no negatives"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_to_learn_is_finite(name: str, labels: list[int]) -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    total = (
        CASES[name][0](variance_weight=0.0)(x, torch.tensor(labels))
        if name == "tuplet"
        else CASES[name][0]()(x, torch.tensor(labels))
    )
    total.backward()
    assert torch.isfinite(x.grad).all()
    assert total.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["identical", "opposite", "zero"])
def test_degenerate_embeddings_stay_finite(name: str, kind: str) -> None:
    one = torch.full((1, 6), 0.5)
    x = {"identical": one.repeat(4, 1), "opposite": torch.cat([one, -one] * 2), "zero": 0 * one.repeat(4, 1)}[kind]
    x = x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total = CASES[name][0]()(x, torch.tensor([0, 0, 1, 1]))
    total.backward()
    assert torch.isfinite(total)
    assert torch.isfinite(x.grad).all()
