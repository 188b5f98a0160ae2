"""SEC inside pytorch-metric-learning."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from reference.norms import sphere_deviation
from support.loss_batches import random_raw

library = pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning import distances, losses, miners, reducers  # noqa: E402

from patchprint.losses.metric_learning import SECRegularizer  # noqa: E402

LABELS = torch.tensor([0, 0, 1, 1, 2, 2])


def make_loss(name: str, **settings: object) -> torch.nn.Module:
    if name == "triplet":
        return losses.TripletMarginLoss(
            margin=1.0, distance=distances.LpDistance(power=2), reducer=reducers.MeanReducer(), **settings
        )
    if name == "multi-similarity":
        return losses.MultiSimilarityLoss(alpha=2, beta=40, base=0.5, **settings)
    return losses.NTXentLoss(temperature=0.5, **settings)


@pytest.mark.parametrize("name", ["triplet", "multi-similarity", "nt-xent"])
def test_adds_the_deviation_of_norms(name: str) -> None:
    x = random_raw(6, 1)[:, 0].requires_grad_()
    pairs = miners.MultiSimilarityMiner(epsilon=0.1)(x, LABELS) if name == "multi-similarity" else None
    plain = make_loss(name)(x, LABELS, pairs)
    regularized = make_loss(name, embedding_regularizer=SECRegularizer(), embedding_reg_weight=0.5)(x, LABELS, pairs)
    expected = plain.item() + 0.5 * sphere_deviation(x.tolist())
    assert regularized.item() == pytest.approx(expected, abs=1e-6)
    regularized.backward()
    assert torch.isfinite(x.grad).all()


def test_moving_mean_is_in_the_checkpoint() -> None:
    regularizer = SECRegularizer(momentum=0.25)
    x, y = random_raw(6, 1, seed=0)[:, 0].float(), random_raw(6, 1, seed=1)[:, 0].float()
    regularizer(x)
    value = regularizer(y)
    center = 0.75 * x.norm(dim=1).mean().item() + 0.25 * y.norm(dim=1).mean().item()
    assert value.item() == pytest.approx(sphere_deviation(y.tolist(), center), abs=1e-5)
    assert regularizer.state_dict()["deviation.center"].item() == pytest.approx(center, abs=1e-5)


def test_logs_mean_and_variance_of_norms() -> None:
    regularizer = SECRegularizer(collect_stats=True)
    regularizer(torch.tensor([[3.0, 0.0], [0.0, 5.0]]))
    assert regularizer.norm_mean == pytest.approx(4.0)
    assert regularizer.norm_variance == pytest.approx(1.0)


def test_it_shrinks_the_variance_of_norms() -> None:
    torch.manual_seed(0)
    x = (torch.randn(6, 8) * torch.linspace(0.5, 3, 6)[:, None]).requires_grad_()
    loss = make_loss("triplet", embedding_regularizer=SECRegularizer(), embedding_reg_weight=1.0)
    before = x.detach().norm(dim=1).var().item()
    optimizer = torch.optim.SGD([x], lr=0.1)
    for _ in range(50):
        optimizer.zero_grad()
        loss(x, LABELS).backward()
        optimizer.step()
    assert x.detach().norm(dim=1).var().item() < 0.05 * before


@pytest.mark.slow
def test_the_package_imports_without_the_library_and_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pytorch_metric_learning'] = None\n"
        "from patchprint import losses, metric_learning\n"
        "from patchprint.common.errors import UserError\n"
        "metric_learning.WithLabels(losses.create('semihard'))\n"
        "for use in ('metric_learning.SECRegularizer', 'losses.create(\"library\")'):\n"
        "    try: eval(use)\n"
        "    except UserError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pip install 'patchprint[metric-learning]'") == 2
