"""Beside pytorch-metric-learning: where its losses agree with ours or not, its losses here, and SEC as its regularizer."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from patchprint.losses import LOSSES, SEC, create
from patchprint.losses.classes import ClassLoss
from patchprint.losses.metric_learning import SECRegularizer, WithLabels
from reference.norms import sphere_deviation
from support.loss_batches import batch_of, on_circle, random_raw

pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import distances, losses, miners, reducers

LABELS = torch.tensor([3, 7, 3, 5, 7, 3, 9, 5])  # classes of 3, 2, 2 and 1 samples
OURS = [name for name, loss in LOSSES.items() if issubclass(loss, ClassLoss)]
EVERY_LOSS = pytest.mark.parametrize("name", OURS)
SQUARED = distances.LpDistance(power=2)


def with_labels(name: str, **settings: float) -> WithLabels:
    return WithLabels(create(name, **settings))


def embeddings(seed: int = 0) -> Tensor:
    centers = random_raw(10, 1, 6, seed=seed, noise=0.0)[LABELS, 0]
    return centers + random_raw(8, 1, 6, seed=seed + 100, noise=0.0)[:, 0]


@EVERY_LOSS
def test_labels_and_groups_are_two_doors_to_one_loss(name: str) -> None:
    raw = random_raw(points=4, views=3)
    valid = torch.tensor([[True, True, True], [True, False, True], [False, False, True], [True, True, True]])
    labels = torch.arange(10, 14)[:, None].expand(4, 3)[valid]
    loss = SEC(create(name), weight=0.3)
    expected = loss(batch_of(raw, valid=valid))["total"]
    torch.testing.assert_close(WithLabels(loss)(raw[valid], labels), expected)


class ScaledNPairs(losses.NPairsLoss):
    """The library's n-pair loss on vectors of length 5."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return super().forward(5.0 * nn.functional.normalize(embeddings), labels)


class Mined(nn.Module):
    """The library's multi-similarity loss behind its miner."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        pairs = miners.MultiSimilarityMiner(epsilon=0.1)(embeddings, labels)
        return losses.MultiSimilarityLoss(alpha=2, beta=40, base=0.5)(embeddings, labels, pairs)


THEIRS = {
    "triplet": losses.TripletMarginLoss(1.0, distance=SQUARED, reducer=reducers.MeanReducer()),
    "n-pair": ScaledNPairs(distance=distances.DotProductSimilarity(normalize_embeddings=False)),
    "multi-similarity": Mined(),
    "tuplet-margin": losses.MultipleLosses(
        [losses.TupletMarginLoss(margin=float(np.rad2deg(0.1))), losses.IntraPairVarianceLoss()], weights=[1.0, 0.5]
    ),
    "nt-xent": losses.NTXentLoss(temperature=0.5),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", THEIRS)
def test_the_library_computes_the_same(name: str, seed: int) -> None:
    results = []
    for loss in (with_labels(name), THEIRS[name]):
        x = embeddings(seed).requires_grad_()
        total = loss(x, LABELS)
        results.append((total, *torch.autograd.grad(total, x)))
    assert results[0][1].abs().max() > 1e-4
    torch.testing.assert_close(results[0], results[1], atol=1e-6, rtol=1e-6)


def test_two_views_are_those_of_simclr() -> None:
    first, second = random_raw(5, 2).unbind(1)
    theirs = losses.SelfSupervisedLoss(losses.NTXentLoss(temperature=0.5))(first, second)
    ours = create("nt-xent")(batch_of(torch.stack([first, second], 1)))["total"]
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)


def test_semi_hard_takes_the_next_negative_and_else_the_farthest_unlike_the_library() -> None:
    # Anchor 0 deg, positive 60 deg; negatives at 30, 80 and 115 deg. Beyond 60 the nearest is 80.
    x, labels = on_circle(0, 60, 30, 80, 115), torch.tensor([0, 0, 1, 2, 3])

    def squared(angle: float) -> float:
        return 2 - 2 * np.cos(np.deg2rad(angle))

    # From 60 deg all negatives are nearer than the positive, 30, 20 and 55 deg away: the farthest.
    loss = with_labels("semihard", margin=1.0)(x, labels)
    first, second = 1.0 + squared(60) - squared(80), 1.0 + squared(60) - squared(55)
    assert loss.item() == pytest.approx((first + second) / 2, abs=1e-6)
    # The library's miner leaves the second pair out, and would take all of several semi-hard negatives of the first.
    miner = miners.TripletMarginMiner(1.0, type_of_triplets="semihard", distance=SQUARED)
    assert THEIRS["triplet"](x, labels, miner(x, labels)).item() == pytest.approx(first, abs=1e-6)


def test_tuplet_margin_survives_one_image_twice_and_the_library_does_not() -> None:
    """Hence ours: a class with few images is drawn twice into a batch, and acos has no slope at cosine 1."""
    x = embeddings()
    x[0] = x[2] = torch.eye(6)[0]
    finite = []
    for loss in (with_labels("tuplet-margin"), THEIRS["tuplet-margin"]):
        (gradient,) = torch.autograd.grad(loss(y := x.clone().requires_grad_(), LABELS), y)
        finite.append(bool(torch.isfinite(gradient).all()))
    assert finite == [True, False]


def test_multi_similarity_drops_one_image_twice_and_the_library_does_not() -> None:
    """As the published code does: the copy is no positive of the image, so that it has nothing to learn from here."""
    x, labels = on_circle(0, 0, 10), torch.tensor([0, 0, 1])
    assert with_labels("multi-similarity")(x, labels).item() == 0.0
    assert Mined()(x, labels).item() > 0.3


@pytest.mark.parametrize(
    "labels", [[0, 1, 2, 3], [0, 0, 0, 0], [5]], ids=["no positives", "no negatives", "one sample"]
)
@EVERY_LOSS
def test_nothing_to_learn_is_zero(name: str, labels: list[int]) -> None:
    x = torch.randn(len(labels), 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    settings = {"variance_weight": 0.0} if name == "tuplet-margin" else {}  # a variance is there without tuplets
    total = with_labels(name, **settings)(x, torch.tensor(labels))
    total.backward()
    assert total.item() == 0.0
    assert not x.grad.any()


@EVERY_LOSS
@pytest.mark.parametrize("length", [1.0, 0.0])
def test_one_image_twice_stays_finite_and_so_do_zeros(name: str, length: float) -> None:
    x = length * embeddings().float()
    x[0], x[1] = x[2], x[3]  # in one class, and under two labels
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        total = with_labels(name)(x, LABELS)
    total.backward()
    assert torch.isfinite(total) and (total > 0 or length == 0)
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize(
    ("name", "miner"),
    [
        ("TripletMarginLoss", None),
        ("MultiSimilarityLoss", miners.MultiSimilarityMiner(epsilon=0.1)),
        ("NTXentLoss", None),
    ],
)
def test_the_regularizer_adds_the_deviation_of_norms(name: str, miner: Any) -> None:
    x, labels = random_raw(6, 1)[:, 0].requires_grad_(), torch.tensor([0, 0, 1, 1, 2, 2])
    pairs = None if miner is None else miner(x, labels)
    plain = getattr(losses, name)()(x, labels, pairs)
    loss = getattr(losses, name)(embedding_regularizer=SECRegularizer(), embedding_reg_weight=0.5)
    regularized = loss(x, labels, pairs)
    assert regularized.item() == pytest.approx(plain.item() + 0.5 * sphere_deviation(x.tolist()), abs=1e-6)
    regularized.backward()
    assert torch.isfinite(x.grad).all()


def test_the_moving_mean_of_the_regularizer_is_in_the_checkpoint() -> None:
    regularizer = SECRegularizer(momentum=0.25)
    x, y = random_raw(6, 1, seed=0)[:, 0].float(), random_raw(6, 1, seed=1)[:, 0].float()
    regularizer(x)
    value = regularizer(y)
    center = 0.75 * x.norm(dim=1).mean().item() + 0.25 * y.norm(dim=1).mean().item()
    assert value.item() == pytest.approx(sphere_deviation(y.tolist(), center), abs=1e-5)
    assert regularizer.state_dict()["deviation.center"].item() == pytest.approx(center, abs=1e-5)


def test_the_regularizer_keeps_mean_and_variance_of_norms_for_the_record_keeper() -> None:
    regularizer = SECRegularizer()
    regularizer(torch.tensor([[3.0, 0.0], [0.0, 5.0]]))
    assert {name: getattr(regularizer, name).item() for name in regularizer._record_these_stats} == {
        "norm_mean": pytest.approx(4.0),
        "norm_variance": pytest.approx(1.0),
    }


@pytest.mark.slow
def test_the_package_imports_without_the_library_and_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pytorch_metric_learning'] = None\n"
        "from patchprint import losses\n"
        "from patchprint.losses import metric_learning\n"
        "from patchprint.common.errors import UserError\n"
        "metric_learning.WithLabels(losses.create('semihard'))\n"
        "try: metric_learning.SECRegularizer()\n"
        "except UserError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pip install 'patchprint[metric-learning]'") == 1


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match="HardNetLoss learns from views of points, not from labels"):
        with_labels("hardnet")(embeddings(), LABELS)
    with pytest.raises(ValueError, match="one class for each of the 8 points"):
        with_labels("triplet")(embeddings(), LABELS[:5])
