"""The ranking of all matches of a batch, against a list that is counted by hand."""

import numpy as np
import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.losses import create
from patchprint.losses.auxiliary import MatchRanking
from support.loss_batches import batch_of, random_raw


def counted(raw: np.ndarray, temperature: float, guard: float = 0.0) -> float:
    """Smooth average precision of one list of right matches and nearest wrong ones, match by match."""
    unit = raw / np.linalg.norm(raw, axis=-1, keepdims=True)
    angles = np.arccos(np.clip(np.einsum("iad,jbd->iajb", unit, unit), -1 + 1e-5, 1 - 1e-5)).min((1, 3))
    right = [np.arccos((a * b).sum()) for a, b in unit]
    wrong = [min(a for j, a in enumerate(row) if j != i and a > guard) for i, row in enumerate(angles)]
    step = lambda value: 1 / (1 + np.exp(-value / temperature))  # noqa: E731
    precisions = []
    for i, own in enumerate(right):
        before = 1 + sum(step(own - other) for j, other in enumerate(right) if j != i)
        precisions.append(before / (before + sum(step(own - other) for other in wrong)))
    return float(np.mean(precisions))


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_the_ranking_is_that_of_one_list(temperature: float) -> None:
    raw = random_raw(points=7, dim=5)
    plain, ranked = create("hardnet"), MatchRanking(create("hardnet"), 0.7, temperature, guard=0.3)
    parts = ranked(batch_of(raw))
    expected = counted(raw.numpy(), temperature, guard=0.3)
    assert parts["ranking_ap"].item() == pytest.approx(expected, abs=1e-6)
    total = plain(batch_of(raw))["total"].item() + 0.7 * (1 - expected)
    assert parts["total"].item() == pytest.approx(total, abs=1e-6)


def test_a_point_that_is_right_in_its_own_list_still_learns_from_those_of_others() -> None:
    """Each right match is nearer than the wrong ones of its own point, but not than those of the other pair of points."""
    degrees = torch.tensor([[0.0, 4.0], [10.0, 14.0], [100.0, 130.0], [170.0, 200.0]])
    raw = torch.stack([torch.cos(degrees.deg2rad()), torch.sin(degrees.deg2rad())], -1).double()
    near_zero = MatchRanking(create("hardnet"), 1.0, temperature=1e-3, guard=0.0)
    # Right 4, 4, 30, 30 degrees; wrong 6, 6, 40, 40: the two right ones of 30 degrees stand behind two wrong ones.
    assert near_zero(batch_of(raw))["ranking_ap"].item() == pytest.approx((1 + 1 + 3 / 5 + 4 / 6) / 4, abs=0.02)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UserError, match="loss on pairs"):
        MatchRanking(create("doap"))
    with pytest.raises(UserError, match="weight"):
        MatchRanking(create("hardnet"), -1.0)
