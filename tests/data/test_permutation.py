"""Shuffling without a table of the order."""

import pytest
import torch

from patchprint.common import rng
from patchprint.data.permutation import grid_of, permuted


@pytest.mark.parametrize("count", [1, 2, 3, 10, 97, 1000, 1021])
def test_shuffled_order_is_one_to_one_and_nearly_complete(count):
    grid = grid_of(count)
    reach = grid[0] * grid[1]
    order = permuted(rng.key(3, 5), torch.arange(reach), count, grid)
    assert len(torch.unique(order)) == reach
    assert int(order.min()) >= 0 and int(order.max()) < count
    assert count - reach < max(2, count**0.5)


def test_shuffled_order_has_no_visible_pattern():
    count = 10_000
    order = permuted(rng.key(0, 0), torch.arange(count), count, grid_of(count)).double()
    place = torch.arange(count).double()
    assert abs(float(torch.corrcoef(torch.stack([order, place]))[0, 1])) < 0.05
    assert abs(float(torch.corrcoef(torch.stack([order[1:], order[:-1]]))[0, 1])) < 0.05
    other = permuted(rng.key(0, 1), torch.arange(count), count, grid_of(count)).double()
    assert abs(float(torch.corrcoef(torch.stack([order, other]))[0, 1])) < 0.05
