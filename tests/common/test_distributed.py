"""Rows of a table of all pairs; what passes between processes is tested with losses, batch norm and training."""

import pytest
import torch

from patchprint.common import distributed
from patchprint.common.distributed import ALL_ROWS, Rows


def test_alone_every_row_is_an_own_one():
    x = torch.arange(6.0)
    assert distributed.rank() == 0
    assert distributed.world_size() == 1
    assert Rows.of_this_rank() == ALL_ROWS
    for same in (
        ALL_ROWS.own(x),
        ALL_ROWS.own(x, stacked=2),
        ALL_ROWS.shared(x),
        ALL_ROWS.gathered(x),
        ALL_ROWS.total(x),
    ):
        assert same is x


@pytest.mark.parametrize("rank", range(3))
def test_own_rows_of_all_ranks_are_all_rows(rank):
    x, rows = torch.arange(12.0).reshape(6, 2), Rows(rank, 3)
    assert not rows.are_all
    assert rows.first(6) == 2 * rank
    assert torch.equal(rows.own(x), x[2 * rank : 2 * rank + 2])
    both = torch.cat([x, -x])
    assert torch.equal(rows.own(both, stacked=2), torch.cat([rows.own(x), -rows.own(x)]))


@pytest.mark.parametrize("rank", range(3))
def test_where_an_own_row_meets_itself(rank):
    table = torch.arange(36.0).reshape(6, 6)
    rows = Rows(rank, 3)
    assert torch.equal(rows.diagonal(rows.own(table)), rows.own(table.diagonal()))


def test_gathered_values_return_the_own_gradient(monkeypatch):
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(distributed, "rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "all_gather", lambda parts, value: [part.copy_(value) for part in parts])
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (distributed.gather(x, weight=3.0) * torch.tensor([5.0, 6.0, 7.0, 8.0])).sum().backward()
    assert torch.equal(x.grad, 3 * torch.tensor([7.0, 8.0]))


def test_shared_values_sum_the_gradients_of_all_ranks(monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda value: value.mul_(2))
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    shared = Rows(0, 2).shared(x)
    assert torch.equal(shared, x)
    shared.sum().backward()
    assert torch.equal(x.grad, torch.tensor([2.0, 2.0]))
