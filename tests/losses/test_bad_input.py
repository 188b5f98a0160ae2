"""Bad input: one sentence that names the argument."""

from typing import Any

import pytest
import torch

from patchprint.losses import SEC, NormPenalty, create
from support.loss_batches import EVERY_LOSS, batch_of, is_pair_loss, make_loss, random_raw


@pytest.mark.parametrize("variant", EVERY_LOSS)
def test_one_point_is_refused(variant: str) -> None:
    with pytest.raises(ValueError, match="batch must hold at least two points"):
        make_loss(variant)(batch_of(random_raw(points=1)))


@pytest.mark.parametrize("variant", filter(is_pair_loss, EVERY_LOSS))
def test_pair_losses_need_two_whole_views(variant: str) -> None:
    with pytest.raises(ValueError, match="exactly two views"):
        make_loss(variant)(batch_of(random_raw(views=3)))
    with pytest.raises(ValueError, match=r"batch\.valid must be None"):
        make_loss(variant)(batch_of(random_raw(), valid=torch.ones(6, 2, dtype=torch.bool)))


@pytest.mark.parametrize("variant", [v for v in EVERY_LOSS if make_loss(v).smallest_positive is not None])
def test_same_patch_twice_is_at_the_smallest_distance(variant: str) -> None:
    """No error, since finding out would stop the device: the positive distance is at its documented minimum."""
    view = random_raw(seed=5)[:, 0]
    loss = make_loss(variant).double()
    parts = loss(batch_of(torch.stack([view, view], 1)))
    assert parts["positive"].item() == pytest.approx(loss.smallest_positive, abs=1e-9)
    assert torch.isfinite(parts["total"])


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("hardnet", {"margin": -0.1}, "margin must be at least 0"),
        ("sosnet", {"margin": -0.1}, "margin must be at least 0"),
        ("hynet", {"margin": -1}, "margin must be at least 0"),
        ("tfeat", {"margin": -1}, "margin must be at least 0"),
        ("sdgm", {"margin": -0.1}, "margin must be a probability"),
        ("sdgm", {"margin": 1.0}, "margin must be a probability"),
        ("sdgm", {"margin": float("nan")}, "margin must be a probability"),
        ("hardnet", {"margin": float("nan")}, "margin must be at least 0"),
        ("sdgm", {"self_weight": "angle"}, "self_weight must be one of auto-focus"),
        ("sdgm", {"total_steps": 0}, "total_steps must be at least 1"),
        ("sdgm", {"rate": 0.0}, "rate must be in"),
        ("hardnet", {"mining": "easiest"}, "mining must be one of hardest"),
        ("hardnet", {"form": "hinge"}, "form must be one of triplet"),
        ("doap", {"bins": 0}, "bins must be at least 1"),
        ("doap-binary", {"bins": 0}, "bins must be at least 1"),
        ("cdf", {"bins": 1}, "bins must be at least 2"),
        ("cdf", {"rate": 2.0}, "rate must be in"),
        ("scale-aware", {"gamma": 1.5}, "gamma must be in"),
        ("scale-aware", {"delta": 0.0}, "delta must be above 0"),
        ("l2net", {"e1": False, "e2": False, "e3": False}, "switch at least one on"),
        ("triplet", {"margin": -1}, "margin must be at least 0"),
        ("semihard", {"margin": -1}, "margin must be at least 0"),
        ("n-pair", {"scale": -1}, "scale must be at least 0"),
        ("multi-similarity", {"positive_scale": 0}, "positive_scale must be at least 0.001"),
        ("tuplet-margin", {"slack": -1}, "slack must be at least 0"),
        ("nt-xent", {"temperature": 0}, "temperature must be above 0"),
        ("hardnet", {"magrin": 1.0}, "loss 'hardnet' has no option 'magrin'; did you mean margin"),
        ("hradnet", {}, "there is no loss 'hradnet'; did you mean hardnet"),
    ],
)
def test_settings(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create(name, **settings)


def test_more_bins_than_pairs() -> None:
    raw = random_raw(points=6)  # 12 patches, 66 pairs of patches; 6 pairs of views
    with pytest.raises(ValueError, match="bins must not exceed the 66 pairs"):
        create("doap", bins=67)(batch_of(raw))
    create("doap", bins=66)(batch_of(raw))
    with pytest.raises(ValueError, match="bins must not exceed the 66 pairs"):
        create("doap-binary")(batch_of(random_raw(points=6, dim=128)))
    with pytest.raises(ValueError, match="bins must not exceed the 6 pairs"):
        create("cdf")(batch_of(raw))


def test_what_a_loss_needs_of_the_batch() -> None:
    batch = batch_of(random_raw(points=6))
    without = type(batch)(batch.desc, batch.raw)
    with pytest.raises(ValueError, match=r"L2NetLoss needs batch\.maps"):
        create("l2net")(without)
    create("l2net", e3=False)(without)
    assert create("l2net").needs_maps
    assert not create("l2net", e3=False).needs_maps
    assert SEC(create("l2net")).needs_maps
    ignore = torch.zeros(12, 12, dtype=torch.bool)
    for name in ("l2net", "tfeat"):
        with pytest.raises(ValueError, match=r"batch\.ignore must be None"):
            create(name)(batch_of(random_raw(), ignore=ignore))


def test_weights_and_momentum_of_the_wrappers() -> None:
    with pytest.raises(ValueError, match="weight must be at least 0"):
        SEC(create("hardnet"), weight=-1)
    with pytest.raises(ValueError, match="momentum must be in"):
        SEC(create("hardnet"), momentum=0.0)
    with pytest.raises(ValueError, match="weight must be at least 0"):
        NormPenalty(create("hardnet"), weight=-1)
