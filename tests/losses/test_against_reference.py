"""Values within 1e-6 and gradients within 1e-4 of slow NumPy versions, over three steps of running statistics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from loss_batches import VARIANTS, batch_of, make_loss, random_raw
from patchprint import rng
from patchprint.losses.hardnet import other_points
from reference import average_precision, metric_losses, pair_losses

PROGRESS = (0.05, 0.5, 0.9)  # the first step is in SDGM's warm-up
STEP = 3


class Stateless:
    def __init__(self, value: Callable[[np.ndarray], float]) -> None:
        self.value = value

    def step(self, raw: np.ndarray, progress: float) -> None:
        pass


class Stateful:
    """A reference with ``step`` and ``value``, on the arguments that it takes."""

    def __init__(self, reference: object, arguments: Callable[[np.ndarray], tuple], with_progress: bool) -> None:
        self.reference, self.arguments, self.with_progress = reference, arguments, with_progress

    def step(self, raw: np.ndarray, progress: float) -> None:
        self.reference.step(*self.arguments(raw), *([progress] if self.with_progress else []))

    def value(self, raw: np.ndarray) -> float:
        return self.reference.value(*self.arguments(raw))


def units(raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    unit = raw / np.linalg.norm(raw, axis=-1, keepdims=True)
    return unit[:, 0], unit[:, 1]


def everything(raw: np.ndarray) -> tuple[np.ndarray, ...]:
    return *units(raw), raw[:, 0], raw[:, 1]


def reference_of(variant: str, points: int, dim: int) -> Stateless | Stateful:
    name, settings = VARIANTS[variant]
    key = rng.key(0, STEP)
    if name == "l2net":
        return Stateless(
            lambda raw: pair_losses.l2net(
                *everything(raw), [(0.3 * raw[:, 0], 0.3 * raw[:, 1]), (raw[:, 0], raw[:, 1])], **settings
            )
        )
    if name == "doap":
        bins = settings["bins"]
        return Stateless(
            lambda raw: average_precision.doap(np.stack(units(raw), 1), bins, 2 / bins, pair_losses.distance)
        )
    if name == "doap-binary":
        bins = settings.get("bins", dim)
        return Stateless(lambda raw: average_precision.doap(raw, bins, dim / bins, average_precision.soft_hamming))
    if name == "hardnet":
        other = other_points(points, rng.fold_in(key, 1)).tolist()
        gor_other = other_points(points, rng.fold_in(key, 2)).tolist()
        return Stateless(lambda raw: pair_losses.hardnet(*units(raw), other=other, gor_other=gor_other, **settings))
    if name == "tfeat":
        return Stateless(lambda raw: pair_losses.tfeat(*units(raw), other_points(points, key).tolist(), **settings))
    if name == "sosnet":
        return Stateless(lambda raw: pair_losses.sosnet(*units(raw), **settings))
    if name == "hynet":
        weight = settings.get("second_order", 0.0)
        return Stateless(lambda raw: pair_losses.hynet(*everything(raw), second_order_weight=weight))
    if name == "scale-aware":
        return Stateless(
            lambda raw: pair_losses.scale_aware(*(everything(raw)[2:] if "normalized" in settings else units(raw)))
        )
    if name == "exp-tl":
        return Stateless(lambda raw: pair_losses.exp_tl(*units(raw)))
    if name == "sdgm":
        return Stateful(pair_losses.SDGM(**settings), units, with_progress=True)
    assert name == "cdf"
    binary = settings.get("binary", False)
    kind = pair_losses.BinaryCDF if binary else pair_losses.CDF
    return Stateful(kind(settings["bins"]), everything, with_progress=False)


def finite_differences(value: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    gradient = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        moved = at.copy()
        moved[index] = at[index] + step
        above = value(moved)
        moved[index] = at[index] - step
        gradient[index] = (above - value(moved)) / (2 * step)
    return gradient


@pytest.mark.parametrize("variant", VARIANTS)
def test_value_and_gradient(variant: str) -> None:
    points, dim = 6, 6
    loss = make_loss(variant).double()
    reference = reference_of(variant, points, dim)
    for number, progress in enumerate(PROGRESS):
        raw = random_raw(points, 2, dim, seed=number).requires_grad_()
        parts = loss(batch_of(raw, progress, STEP))
        reference.step(raw.detach().numpy(), progress)
        assert parts["total"].item() == pytest.approx(reference.value(raw.detach().numpy()), abs=1e-6, rel=1e-6)
    (gradient,) = torch.autograd.grad(parts["total"], raw)
    expected = finite_differences(reference.value, raw.detach().numpy())
    assert np.abs(expected).max() > 1e-4, "the case must exercise the gradient"
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["doap", "doap-binary"])
def test_ragged_groups_and_ignored_pairs(name: str) -> None:
    raw = random_raw(points=5, views=3, dim=6, noise=1.0).requires_grad_()
    valid = torch.ones(5, 3, dtype=torch.bool)
    valid[0, 2] = valid[1, 1] = valid[2, 1] = valid[2, 2] = False  # point 2 has a single view: no query, a distractor
    ignore = torch.rand(15, 15, generator=torch.Generator().manual_seed(1)) < 0.2
    ignore = ignore | ignore.T
    loss = make_loss(name).double()
    bins = 10 if name == "doap" else 6

    def value(raw: np.ndarray) -> float:
        if name == "doap":
            groups, width, distance = raw / np.linalg.norm(raw, axis=-1, keepdims=True), 0.2, pair_losses.distance
        else:
            groups, width, distance = raw, 1.0, average_precision.soft_hamming
        return average_precision.doap(groups, bins, width, distance, valid.numpy(), ignore.numpy())

    total = loss(batch_of(raw, valid=valid, ignore=ignore))["total"]
    assert total.item() == pytest.approx(value(raw.detach().numpy()), abs=1e-6)
    (gradient,) = torch.autograd.grad(total, raw)
    np.testing.assert_allclose(gradient.numpy(), finite_differences(value, raw.detach().numpy()), atol=1e-4)
    assert not gradient[2, 1:].any(), "views that do not exist get no gradient"


@pytest.mark.parametrize("momentum", [1.0, 0.25])
def test_sec(momentum: float) -> None:
    from patchprint.losses import SEC, create

    loss = SEC(create("hardnet"), weight=0.7, momentum=momentum).double()
    plain = create("hardnet")
    center = None
    for seed in range(3):
        raw = random_raw(seed=seed).requires_grad_()
        parts = loss(batch_of(raw))
        vectors = raw.detach().flatten(0, 1).numpy()
        mean = np.linalg.norm(vectors, axis=1).mean()
        center = mean if center is None else (1 - momentum) * center + momentum * mean
        expected = metric_losses.sphere_deviation(vectors, center)
        assert parts["norm_penalty"].item() == pytest.approx(expected, abs=1e-9)
        assert parts["total"].item() == pytest.approx(plain(batch_of(raw))["total"].item() + 0.7 * expected, abs=1e-9)
    assert parts["norm_mean"].item() == pytest.approx(mean, abs=1e-9)
    assert parts["norm_variance"].item() == pytest.approx(metric_losses.sphere_deviation(vectors), abs=1e-9)

    def value(raw: np.ndarray) -> float:
        return pair_losses.hardnet(*units(raw)) + 0.7 * metric_losses.sphere_deviation(raw.reshape(-1, 8), center)

    (gradient,) = torch.autograd.grad(parts["total"], raw)
    np.testing.assert_allclose(gradient.numpy(), finite_differences(value, raw.detach().numpy()), atol=1e-4)


def test_norm_penalty() -> None:
    from patchprint.losses import NormPenalty, create

    raw = random_raw()
    valid = torch.ones(6, 2, dtype=torch.bool)
    valid[0, 1] = False
    counted = raw[valid].numpy()
    plain, wrapped = create("doap", bins=10), NormPenalty(create("doap", bins=10), weight=0.01)
    batch = batch_of(raw, valid=valid)
    expected = plain(batch)["total"].item() + 0.01 * metric_losses.mean_squared_norm(counted)
    assert wrapped(batch)["total"].item() == pytest.approx(expected, abs=1e-9)
