"""Values within 1e-6 and gradients within 1e-4 of slow NumPy versions, over three steps of running statistics."""

from typing import Any

import numpy as np
import pytest
import torch

from patchprint.losses import SEC, NormPenalty, create
from reference import norms
from reference.formula import STEP, finite_differences
from support.loss_batches import VARIANTS, batch_of, is_pair_loss, make_loss, random_raw, reference_module

PROGRESS = (0.05, 0.5, 0.9)  # the first step is in SDGM's warm-up


def reference_of(variant: str, points: int, dim: int) -> Any:
    """The slow version of a variant, from the module with the loss's name; see reference/formula.py."""
    name, settings = VARIANTS[variant]
    return reference_module(name).reference(settings, points, dim)


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
        assert not any(part.requires_grad for name, part in parts.items() if name != "total"), "the log keeps no graph"
    (gradient,) = torch.autograd.grad(parts["total"], raw)
    expected = finite_differences(reference.value, raw.detach().numpy())
    assert np.abs(expected).max() > 1e-4, "the case must exercise the gradient"
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if not is_pair_loss(v)])
def test_ragged_groups_and_ignored_pairs(variant: str) -> None:
    raw = random_raw(points=5, views=3, dim=6, noise=1.0).requires_grad_()
    valid = torch.ones(5, 3, dtype=torch.bool)
    valid[0, 2] = valid[1, 1] = valid[2, 1] = valid[2, 2] = False  # point 2 has a single view: no query, a distractor
    ignore = torch.rand(15, 15, generator=torch.Generator().manual_seed(1)) < 0.2
    ignore = ignore | ignore.T
    loss, reference = make_loss(variant).double(), reference_of(variant, 5, 6)

    def value(raw: np.ndarray) -> float:
        return reference.value(raw, valid=valid.numpy(), ignore=ignore.numpy())

    batch = batch_of(raw, step=STEP, valid=valid, ignore=ignore)
    reference.step(raw.detach().numpy(), float(batch.progress))
    total = loss(batch)["total"]
    assert total.item() == pytest.approx(value(raw.detach().numpy()), abs=1e-6)
    (gradient,) = torch.autograd.grad(total, raw)
    np.testing.assert_allclose(gradient.numpy(), finite_differences(value, raw.detach().numpy()), atol=1e-4)
    assert not gradient[2, 1:].any(), "views that do not exist get no gradient"


@pytest.mark.parametrize("variant", ["doap", "doap-binary"])
def test_average_precision_of_flat_patches_with_labels_is_that_of_the_groups(variant: str) -> None:
    raw = random_raw(points=5, views=3, dim=6, noise=1.0)
    valid = torch.ones(5, 3, dtype=torch.bool)
    valid[0, 2] = valid[1, 1] = valid[2, 1] = valid[2, 2] = False
    # Groups in any order, and two patches of a group that is cut off: not valid, whatever they show.
    label = torch.arange(5)[:, None].expand(5, 3)[valid]
    order = torch.randperm(11, generator=torch.Generator().manual_seed(0))
    flat = torch.cat([raw[valid][order], random_raw(points=2, views=1, dim=6, seed=9)[:, 0]])[:, None]
    label = torch.cat([label[order], torch.tensor([7, 7])])
    counts = (torch.arange(13) < 11)[:, None]
    by_label = make_loss(variant)(batch_of(flat, label=label, valid=counts))
    torch.testing.assert_close(by_label, make_loss(variant)(batch_of(raw, valid=valid)))


@pytest.mark.parametrize("momentum", [1.0, 0.25])
def test_sec(momentum: float) -> None:
    loss = SEC(create("hardnet"), weight=0.7, momentum=momentum).double()
    plain = create("hardnet")
    center = None
    for seed in range(3):
        raw = random_raw(seed=seed).requires_grad_()
        parts = loss(batch_of(raw))
        vectors = raw.detach().flatten(0, 1).numpy()
        mean = np.linalg.norm(vectors, axis=1).mean()
        center = mean if center is None else (1 - momentum) * center + momentum * mean
        expected = norms.sphere_deviation(vectors, center)
        assert parts["norm_penalty"].item() == pytest.approx(expected, abs=1e-9)
        assert parts["total"].item() == pytest.approx(plain(batch_of(raw))["total"].item() + 0.7 * expected, abs=1e-9)
    assert parts["norm_mean"].item() == pytest.approx(mean, abs=1e-9)
    assert parts["norm_variance"].item() == pytest.approx(norms.sphere_deviation(vectors), abs=1e-9)

    reference = reference_of("hardnet-hardest-triplet", 6, 8)

    def value(raw: np.ndarray) -> float:
        return reference.value(raw) + 0.7 * norms.sphere_deviation(raw.reshape(-1, 8), center)

    (gradient,) = torch.autograd.grad(parts["total"], raw)
    np.testing.assert_allclose(gradient.numpy(), finite_differences(value, raw.detach().numpy()), atol=1e-4)


def test_norm_penalty() -> None:
    raw = random_raw()
    valid = torch.ones(6, 2, dtype=torch.bool)
    valid[0, 1] = False
    counted = raw[valid].numpy()
    plain, wrapped = create("doap", bins=10), NormPenalty(create("doap", bins=10), weight=0.01)
    batch = batch_of(raw, valid=valid)
    expected = plain(batch)["total"].item() + 0.01 * norms.mean_squared_norm(counted)
    assert wrapped(batch)["total"].item() == pytest.approx(expected, abs=1e-9)
