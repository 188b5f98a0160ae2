"""Small cases that can be worked out on paper."""

import math

import pytest
import torch

from patchprint.common.rng import key
from patchprint.losses import DescriptorBatch, create
from patchprint.losses.doap import CumulativeCounts, relaxed_average_precision
from patchprint.losses.hardnet import correlation_penalty, global_orthogonality, other_points
from patchprint.losses.loss import Pairs
from patchprint.losses.mining import angle, hardest_across, hardest_cosine, hardest_everywhere
from reference.average_precision import exact_average_precision, relaxed_average_precision as slow_relaxed
from support.loss_batches import batch_of, on_circle

E1, E2, E3 = torch.eye(3).unbind()


@pytest.mark.parametrize(
    ("positives", "negatives", "exact", "relaxed"),
    [
        ((1, 1, 0), (0, 1, 3), 0.91667, 0.90000),
        ((0, 2, 1), (1, 2, 4), 0.42265, 0.41071),
        ((0.5, 1.5, 0), (0, 1, 3), None, 0.83333),
    ],
)
def test_average_precision_of_the_fact_sheet(
    positives: tuple[float, ...], negatives: tuple[float, ...], exact: float | None, relaxed: float
) -> None:
    plus, minus = torch.tensor([positives]), torch.tensor([negatives])
    ours = relaxed_average_precision(plus.cumsum(1), (plus + minus).cumsum(1)).item()
    assert ours == pytest.approx(relaxed, abs=1e-5)
    assert slow_relaxed(positives, negatives) == pytest.approx(relaxed, abs=1e-5)
    if exact is not None:
        assert exact_average_precision(positives, negatives) == pytest.approx(exact, abs=1e-5)


def test_soft_counts_share_an_item_between_two_bins() -> None:
    position = torch.tensor([[0.0, 0.25, 2.0, 3.0]])  # the last one is outside of bins 0..2
    positives, everyone = CumulativeCounts.apply(position, torch.tensor([[False, True, True, False]]), 2)
    assert positives.tolist() == [[0.75, 1.0, 2.0]]
    assert everyone.tolist() == [[1.75, 2.0, 3.0]]


def test_doap_is_zero_for_a_perfect_ranking_and_counts_queries() -> None:
    desc = torch.stack([torch.stack([v, v]) for v in (E1, E2, E3)])
    parts = create("doap", bins=4)(DescriptorBatch(desc, desc))
    assert parts["total"].item() == pytest.approx(0.0, abs=1e-3)
    assert parts["queries"].item() == 6


def test_doap_without_any_positive_is_a_documented_zero() -> None:
    desc = torch.stack([torch.stack([v, v]) for v in (E1, E2, E3)]).requires_grad_()
    valid = torch.tensor([[True, False]] * 3)
    total = create("doap", bins=4)(DescriptorBatch(desc, desc, valid=valid))["total"]
    total.backward()
    assert total.item() == 0.0
    assert not desc.grad.any()


def test_hardest_negatives_on_a_circle() -> None:
    anchor, positive = on_circle(0, 90, 180), on_circle(20, 75, 200)

    def chord(degrees: float) -> float:
        return 2 * math.sin(math.radians(degrees) / 2)

    pairs = Pairs.of(batch_of(torch.stack([anchor, positive], 1)))
    across = hardest_across(pairs)
    assert across.tolist() == pytest.approx([chord(70), chord(70), chord(105)], abs=1e-6)
    assert hardest_across(pairs, swap=False).tolist() == pytest.approx([chord(75), chord(70), chord(105)], abs=1e-6)
    everywhere = hardest_everywhere(pairs)
    assert everywhere.tolist() == pytest.approx([chord(55), chord(55), chord(90)], abs=1e-6)
    cosine = hardest_cosine(anchor, positive, limit=0.99)
    assert angle(cosine).rad2deg().tolist() == pytest.approx([55, 55, 90], abs=1e-6)


def test_guards_skip_near_duplicates() -> None:
    anchor, positive = on_circle(0, 0.2, 90), on_circle(5, 40, 120)
    # Points 0 and 1 are 0.2 degrees apart as anchors (0.0035 in L2): skipped there, still compared elsewhere.
    pairs = Pairs.of(batch_of(torch.stack([anchor, positive], 1)))
    assert hardest_everywhere(pairs)[0].item() == pytest.approx(2 * math.sin(math.radians(4.8) / 2), abs=1e-4)
    # The angular guard drops the pair of points whatever block shows the near duplicate.
    cosine = hardest_cosine(anchor, positive, limit=math.cos(0.6))
    assert angle(cosine).rad2deg().tolist() == pytest.approx([85, 50, 50], abs=1e-6)


def test_ignored_pairs_are_not_mined() -> None:
    anchor, positive = on_circle(0, 90, 180), on_circle(20, 75, 200)
    raw = torch.stack([anchor, positive], 1)
    ignore = torch.zeros(3, 2, 3, 2, dtype=torch.bool)
    ignore[0, :, 1, :] = ignore[1, :, 0, :] = True
    loss = create("hardnet", margin=3.0)
    seen = loss(batch_of(raw, ignore=ignore.view(6, 6)))["negative"].item()
    # 0 and 1 no longer see each other: 0 has p2 at 160 degrees, 1 has p2 at 110 or a2 to p1 at 105.
    chords = [2 * math.sin(math.radians(d) / 2) for d in (160, 105, 105)]
    assert seen == pytest.approx(sum(chords) / 3, abs=1e-6)


def test_gor_and_cpr() -> None:
    anchor = torch.stack([E1, E2])
    other = torch.stack([E1, E3])  # cosines 1 and 0
    assert global_orthogonality(anchor, other).item() == pytest.approx(0.25 + 0.5 - 1 / 3)
    # Centered anchors are +-(1, -1, 0) / 2: the scatter has -1/2 twice off the diagonal.
    assert correlation_penalty(anchor).item() == pytest.approx(math.sqrt(0.5) / 2)


@pytest.mark.parametrize("count", [2, 3, 17])
def test_other_points_is_a_derangement(count: int) -> None:
    for step in range(20):
        other = other_points(count, key(0, step))
        assert sorted(other.tolist()) == list(range(count))
        assert (other != torch.arange(count)).all()


def test_triplets_that_touch_the_margin_count_as_zero() -> None:
    """Distances between axes are 0, 2 or 4, so that with margin 2 many triplets are exactly at the kink."""
    axes = torch.cat([torch.eye(3), -torch.eye(3)])
    desc = axes[torch.randint(6, (4, 3), generator=torch.Generator().manual_seed(0))]
    parts = create("triplet", margin=2.0)(DescriptorBatch(desc, desc))
    hinges = [
        (2.0 + (desc[c, a] - desc[c, p]).square().sum() - (desc[c, a] - desc[o, n]).square().sum()).clamp_min(0).item()
        for c in range(4) for a in range(3) for p in range(3) if p != a
        for o in range(4) if o != c for n in range(3)
    ]  # fmt: skip
    assert parts["total"].item() == pytest.approx(sum(hinges) / len(hinges), abs=1e-6)
    assert parts["active"].item() == pytest.approx(sum(h > 0 for h in hinges) / len(hinges), abs=1e-6)
    assert len({0.0, 2.0, 4.0, 6.0} & set(hinges)) >= 3
