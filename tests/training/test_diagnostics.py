"""What a run shows beside its loss: numbers of a batch, patches, hard pairs."""

import torch

from patchprint.training.diagnostics import BINS, angle_histograms, monitor

EAST, NORTH, WEST = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])


def test_pairs():
    desc = torch.stack([torch.stack([EAST, NORTH]), torch.stack([WEST, WEST])])
    measured = monitor(desc, 3 * desc)
    assert torch.allclose(measured["distance/positive"], torch.tensor(2**0.5 / 2))
    assert torch.allclose(measured["distance/negative"], torch.tensor((2 + 2**0.5) / 2))
    assert torch.allclose(measured["norm/mean"], torch.tensor(3.0))


def test_groups_are_measured_by_their_first_two_rows_like_pairs():
    flat = torch.stack([EAST, NORTH, WEST, WEST, WEST, NORTH])[:, None]
    label = torch.tensor([0, 0, 1, 1, 1, 2])  # a third view plays no part, nor has a row alone a partner
    pairs = torch.stack([torch.stack([EAST, NORTH]), torch.stack([WEST, WEST])])
    expected, measured = monitor(pairs, pairs), monitor(flat, flat, label)
    for name in ("distance/positive", "distance/negative"):
        assert torch.equal(measured[name], expected[name])


def test_histograms_count_angles_of_points_and_of_the_nearest_others():
    desc = torch.stack([torch.stack([EAST, NORTH]), torch.stack([WEST, WEST])])
    found = angle_histograms(desc)
    # Right angle and none; the second view of the first point is a right angle from the other, its first a straight one.
    assert {place for place, count in enumerate(found["positive"]) if count} == {0, BINS // 2}
    assert found["negative"][BINS // 2] == 2, "the nearer of both views counts"
    assert [sum(counts) for counts in found.values()] == [2, 2]
    flat, label = torch.stack([EAST, NORTH, WEST, WEST])[:, None], torch.tensor([0, 0, 1, 1])
    assert angle_histograms(flat, label) == found
