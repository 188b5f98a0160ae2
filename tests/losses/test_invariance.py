"""What must not matter, and what must not break."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from patchprint.losses import DescriptorBatch, Loss
from support.loss_batches import EVERY_LOSS, VARIANTS, batch_of, make_loss, random_raw

IN_ANY_ORDER = [variant for variant in EVERY_LOSS if not make_loss(variant).draws_by_position]
WITH_STATISTICS = [variant for variant in EVERY_LOSS if any(True for _ in make_loss(variant).buffers())]


@pytest.mark.parametrize("variant", IN_ANY_ORDER)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000), noise=st.floats(0.05, 3.0), order=st.permutations(range(7)))
def test_order_of_points_does_not_matter(variant: str, seed: int, noise: float, order: list[int]) -> None:
    raw = random_raw(points=7, dim=6, seed=seed, noise=noise)
    results = []
    for batch in (batch_of(raw), batch_of(raw[order])):
        loss = make_loss(variant).double()
        results.append((loss(batch)["total"], dict(loss.named_buffers())))
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if not make_loss(variant).ordered_views])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), order=st.permutations(range(3)))
def test_order_of_views_in_a_group_does_not_matter(variant: str, seed: int, order: list[int]) -> None:
    raw = random_raw(points=5, views=3, dim=6, seed=seed)
    loss = make_loss(variant)
    torch.testing.assert_close(loss(batch_of(raw))["total"], loss(batch_of(raw[:, order]))["total"])


def degenerate(kind: str) -> Tensor:
    """Unit vectors (6, 2, 8) that no loss likes."""
    vectors = torch.nn.functional.normalize(random_raw(points=6).float(), dim=-1)
    if kind == "identical":
        return vectors[:1, :1].expand(6, 2, 8).clone()
    if kind == "opposite":
        return torch.stack([vectors[:, 0], -vectors[:, 0]], 1)
    if kind == "same patch twice":
        return torch.stack([vectors[:, 0], vectors[:, 0]], 1)
    if kind == "one point opposite to the rest":
        first = vectors[0, 0]
        return torch.stack([torch.stack([first, first])] + [torch.stack([-first, -first])] * 5)
    assert kind == "zero"
    return torch.zeros(6, 2, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_degenerate_descriptors_stay_finite(variant: str, dtype: torch.dtype) -> None:
    for kind in ("identical", "opposite", "same patch twice", "one point opposite to the rest", "zero"):
        check_finite(make_loss(variant), kind, dtype)


def check_finite(loss: Loss, kind: str, dtype: torch.dtype) -> None:
    desc = degenerate(kind).to(dtype).requires_grad_()
    raw = (3.0 * degenerate(kind)).to(dtype).requires_grad_()
    for progress in (0.0, 0.5):
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            batch = DescriptorBatch(desc, raw, maps=(raw, raw), progress=progress, step=7)
            parts = loss(batch)
        assert parts["total"].dtype == torch.float32, "distances and losses are float32 whatever autocast says"
        assert all(torch.isfinite(part).all() for part in parts.values()), (kind, parts)
        desc.grad = raw.grad = None
        parts["total"].backward()
        gradients = [leaf.grad for leaf in (desc, raw) if leaf.grad is not None]
        assert gradients
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert all(torch.isfinite(buffer.float()).all() for buffer in loss.buffers())


@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_not_a_number_shows_in_the_total(variant: str) -> None:
    """Training looks for it there; it must neither vanish nor make an index that stops the device."""
    raw = random_raw()
    raw[2, 1] = torch.nan
    raw.requires_grad_()
    total = make_loss(variant).double()(batch_of(raw))["total"]
    assert torch.isnan(total)
    total.backward()


@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_half_precision_input_is_computed_in_float32(variant: str) -> None:
    raw = random_raw().to(torch.bfloat16)
    batch = batch_of(raw)
    wide = DescriptorBatch(
        batch.desc.float(),
        raw.float(),
        maps=tuple(m.float() for m in batch.maps),
        progress=batch.progress,
        step=batch.step,
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow_total = make_loss(variant)(batch)["total"]
    torch.testing.assert_close(narrow_total, make_loss(variant)(wide)["total"])


@pytest.mark.parametrize("variant", WITH_STATISTICS)
def test_statistics_run_in_training_mode_only_and_are_in_the_checkpoint(variant: str) -> None:
    loss = make_loss(variant)
    loss(batch_of(random_raw(seed=0)))
    saved = {name: value.clone() for name, value in loss.state_dict().items()}
    assert saved
    loss.eval()
    loss(batch_of(random_raw(seed=1)))
    torch.testing.assert_close(loss.state_dict(), saved)
    resumed = make_loss(variant)
    resumed.load_state_dict(saved)
    loss.train()
    batch = batch_of(random_raw(seed=2))
    torch.testing.assert_close(resumed(batch), loss(batch), rtol=0, atol=0)
    assert any(not torch.equal(value, saved[name]) for name, value in loss.state_dict().items())
