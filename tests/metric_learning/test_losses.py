"""The metric-learning losses: slow versions, where the library agrees or not, and batches with nothing to learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from patchprint.metric_learning import SemiHardTripletLoss, TupletMarginLoss, normalized_n_pair
from reference import metric_losses
from support.host_reads import NoHostReads
from support.loss_batches import random_raw

pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import distances, losses, miners, reducers

LABELS = torch.tensor([3, 7, 3, 5, 7, 3, 9, 5])  # classes of 3, 2, 2 and 1 samples
CASES = {
    "semi-hard": (SemiHardTripletLoss, metric_losses.semi_hard_triplet),
    "n-pair": (normalized_n_pair, metric_losses.normalized_n_pair),
    "tuplet": (TupletMarginLoss, metric_losses.tuplet_margin),
}
OURS = {"semi-hard": SemiHardTripletLoss, "tuplet": TupletMarginLoss}


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


def test_semi_hard_takes_the_next_negative_and_else_the_farthest_unlike_the_library() -> None:
    # On a circle: anchor 0 deg, positive 60 deg; negatives at 30, 80 and 115 deg. Beyond 60 the nearest is 80.
    degrees = torch.deg2rad(torch.tensor([0.0, 60.0, 30.0, 80.0, 115.0], dtype=torch.float64))
    x = torch.stack([degrees.cos(), degrees.sin()], 1)

    def squared(angle: float) -> float:
        return 2 - 2 * np.cos(np.deg2rad(angle))

    labels = torch.tensor([0, 0, 1, 2, 3])
    # From 60 deg all negatives are nearer than the positive, 30, 20 and 55 deg away: the farthest.
    loss = SemiHardTripletLoss(margin=1.0)(x, labels)
    first, second = 1.0 + squared(60) - squared(80), 1.0 + squared(60) - squared(55)
    assert loss.item() == pytest.approx((first + second) / 2, abs=1e-6)
    # The library's miner leaves the second pair out, and would take all of several semi-hard negatives of the first.
    distance = distances.LpDistance(power=2)
    mined = miners.TripletMarginMiner(margin=1.0, type_of_triplets="semihard", distance=distance)(x, labels)
    theirs = losses.TripletMarginLoss(margin=1.0, distance=distance, reducer=reducers.MeanReducer())(x, labels, mined)
    assert theirs.item() == pytest.approx(first, abs=1e-6)


def library_tuplet_margin(slack: float = 0.1, variance_weight: float = 0.5) -> nn.Module:
    tuplets, variance = losses.TupletMarginLoss(margin=float(np.rad2deg(slack))), losses.IntraPairVarianceLoss()
    return losses.MultipleLosses([tuplets, variance], weights=[1.0, variance_weight])


def test_tuplet_margin_agrees_with_the_library() -> None:
    x = embeddings()
    assert TupletMarginLoss()(x, LABELS).item() == pytest.approx(library_tuplet_margin()(x, LABELS).item(), abs=1e-6)


def test_tuplet_margin_survives_one_image_twice_and_the_library_does_not() -> None:
    """Hence ours: a class with few images is drawn twice into a batch, and acos has no slope at cosine 1."""
    x = embeddings()
    x[0] = x[2] = torch.eye(6)[0]
    finite = {}
    for name, loss in (("ours", TupletMarginLoss()), ("library", library_tuplet_margin())):
        (gradient,) = torch.autograd.grad(loss(y := x.clone().requires_grad_(), LABELS), y)
        finite[name] = bool(torch.isfinite(gradient).all())
    assert finite == {"ours": True, "library": False}


def test_n_pair_takes_the_regularizers_of_the_library() -> None:
    from patchprint.metric_learning import SECRegularizer

    x = embeddings()
    plain, regularized = normalized_n_pair(), normalized_n_pair(embedding_regularizer=SECRegularizer())
    expected = plain(x, LABELS).item() + metric_losses.sphere_deviation(x.tolist())
    assert regularized(x, LABELS).item() == pytest.approx(expected, abs=1e-6)


def test_n_pair_has_all_digits_under_autocast() -> None:
    x = embeddings().float()
    expected = normalized_n_pair()(x, LABELS).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert normalized_n_pair()(x, LABELS).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [0, 0, 0, 0]], ids=["no positives", "no negatives"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_to_learn_is_finite(name: str, labels: list[int]) -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    settings = {"variance_weight": 0.0} if name == "tuplet" else {}
    total = CASES[name][0](**settings)(x, torch.tensor(labels))
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


@pytest.mark.parametrize("name", OURS)
def test_compiled_equals_eager(name: str) -> None:
    torch._dynamo.reset()
    loss, labels = OURS[name](), torch.tensor([0, 0, 1, 1, 2, 2])
    x = random_raw(6, 1).float()[:, 0]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, labels), loss(x, labels))


@pytest.mark.parametrize("name", OURS)
def test_no_host_reads(name: str) -> None:
    x, labels = random_raw(6, 1).float()[:, 0].requires_grad_(), torch.tensor([0, 0, 1, 1, 2, 2])
    with NoHostReads():
        OURS[name]()(x, labels).backward()


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: SemiHardTripletLoss(margin=-1), "margin"),
        (lambda: TupletMarginLoss(slack=-1), "slack"),
        (lambda: normalized_n_pair(scale=-1), "scale"),
    ],
)
def test_wrong_settings_are_named(make: Any, argument: str) -> None:
    with pytest.raises(ValueError, match=f"{argument} must be at least 0"):
        make()
