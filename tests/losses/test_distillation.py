"""The loss of a teacher against loops over all patches and pairs, written from the formula."""

import numpy as np
import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.losses import SEC, Distillation, auxiliary, create
from reference.formula import finite_differences
from support.loss_batches import batch_of, random_raw


def teacher_of(raw, dim=None, seed=5):
    """Unit vectors near those of the batch, or of another dimension."""
    points, views, own = raw.shape
    turned = random_raw(points, views, dim or own, seed)
    return torch.nn.functional.normalize(turned if dim else raw.detach() + 0.5 * turned, dim=-1)


def formula(raw, teacher, counts, cosine=1.0, similarity=4.0):
    learned = (raw / np.linalg.norm(raw, axis=-1, keepdims=True)).reshape(-1, raw.shape[-1])[counts]
    taught = teacher.reshape(-1, teacher.shape[-1])[counts]
    near = sum(1 - float(a @ b) for a, b in zip(learned, taught, strict=True)) / len(learned)
    differing = [(float(learned[i] @ learned[j]) - float(taught[i] @ taught[j])) ** 2 for i, j in pairs(len(learned))]
    return cosine * near + similarity * sum(differing) / len(learned) ** 2


def pairs(count):
    return [(i, j) for i in range(count) for j in range(count)]


def test_value_and_gradient_equal_the_formula():
    raw = random_raw().requires_grad_()
    teacher = teacher_of(raw)
    parts = Distillation(create("sdgm"), 0.0, cosine=0.7, similarity=3.0)(batch_of(raw, teacher=teacher))

    def value(values):
        return formula(values, teacher.numpy(), slice(None), 0.7, 3.0)

    assert parts["total"].item() == pytest.approx(value(raw.detach().numpy()), abs=1e-12)
    (gradient,) = torch.autograd.grad(parts["total"], raw)
    np.testing.assert_allclose(gradient.numpy(), finite_differences(value, raw.detach().numpy()), atol=1e-6)


def test_nothing_is_left_to_learn_where_the_network_says_what_the_teacher_says():
    raw = random_raw()
    parts = Distillation(create("sdgm"), 0.0)(batch_of(raw, teacher=torch.nn.functional.normalize(raw, dim=-1)))
    assert parts["total"].item() == pytest.approx(0.0, abs=1e-12)


def test_patches_that_are_not_valid_do_not_count():
    raw, valid = random_raw(), torch.ones(6, 2, dtype=torch.bool)
    valid[1, 1] = valid[4, 0] = False
    teacher = teacher_of(raw)
    parts = Distillation(create("doap"), 0.0)(batch_of(raw, teacher=teacher, valid=valid))
    expected = formula(raw.numpy(), teacher.numpy(), valid.flatten().numpy())
    assert parts["total"].item() == pytest.approx(expected, abs=1e-12)


def test_only_similarities_teach_where_dimensions_differ_and_a_turn_of_the_teacher_changes_nothing():
    raw = random_raw()
    teacher = teacher_of(raw, dim=20)
    loss = Distillation(create("sdgm"), 0.0)
    parts = loss(batch_of(raw, teacher=teacher))
    assert "teacher_cosine" not in parts
    assert parts["total"].item() == pytest.approx(4 * parts["teacher_similarity"].item(), abs=1e-12)
    turn = torch.linalg.qr(torch.randn(20, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))[0]
    torch.testing.assert_close(loss(batch_of(raw, teacher=teacher @ turn))["total"], parts["total"])


def test_large_batches_are_compared_block_by_block(monkeypatch):
    raw = random_raw(points=5)
    learned, taught = (each.flatten(0, 1) for each in (batch_of(raw).desc, teacher_of(raw)))
    counts = torch.ones(10, dtype=torch.float64)
    monkeypatch.setattr(auxiliary, "BLOCK", 6)
    blocks = [slice(0, 6), slice(6, 10)]
    squares = [(learned[b] @ learned[b].T - taught[b] @ taught[b].T).square().sum() for b in blocks]
    expected = sum(squares) / (36 + 16)
    torch.testing.assert_close(auxiliary.similarity_difference(learned, taught, counts), expected)


def test_a_loss_beside_the_teacher_is_added():
    raw = random_raw()
    batch = batch_of(raw, teacher=teacher_of(raw))
    alone, hardnet = Distillation(create("hardnet"), 0.0)(batch), create("hardnet")(batch)
    both = Distillation(create("hardnet"), 2.0)(batch)
    torch.testing.assert_close(both["total"], 2.0 * hardnet["total"] + alone["total"])
    assert set(both) == set(hardnet) | set(alone)


def test_it_takes_after_the_loss_inside_only_where_that_counts():
    assert Distillation(create("l2net")).needs_maps and not Distillation(create("l2net"), 0.0).needs_maps
    assert Distillation(create("doap-binary")).binary is True
    assert Distillation(create("doap-binary"), 0.0).binary is None
    assert SEC(Distillation(create("l2net"))).needs_maps


def test_a_batch_without_a_teacher_is_refused():
    with pytest.raises(UserError, match=r"needs batch\.teacher"):
        Distillation(create("sdgm"))(batch_of(random_raw()))
    with pytest.raises(UserError, match="of 6 points and 2 views"):
        batch_of(random_raw(), teacher=torch.zeros(6, 3, 8))
    with pytest.raises(UserError, match="similarity must be at least 0"):
        Distillation(create("sdgm"), similarity=-1.0)
