"""Batches: distinct points, distinct views, resumable, the same for one process and for several."""

import pytest
import torch

from patchprint.common import rng
from patchprint.data.batches import ClassBatcher, NeighborBatcher, PairBatcher, ProgressiveBatcher, grid_of, permuted
from support.bare_points import Points


def step(number):
    return torch.tensor(number)


def test_pairs_cover_every_point_once_per_epoch_with_two_views():
    source = Points(torch.randint(1, 6, (500,), generator=torch.Generator().manual_seed(0)))
    batcher = PairBatcher(source, 32, seed=1)
    seen = []
    for number in range(batcher.steps_per_epoch):
        batch = batcher.batch(step(number))
        assert batch.points.shape == (32,) and batch.views.shape == (32, 2)
        assert (batch.views[:, 0] != batch.views[:, 1]).all()
        assert ((batch.views >= 0) & (batch.views < source.num_views[batch.points][:, None])).all()
        seen.append(batch.points)
    seen = torch.cat(seen)
    assert len(torch.unique(seen)) == len(seen)
    assert len(seen) > 0.9 * int((source.num_views >= 2).sum())


def test_batches_depend_only_on_seed_and_step():
    source = Points(torch.full((300,), 4))
    a, b = PairBatcher(source, 16, seed=7), PairBatcher(source, 16, seed=7)
    for number in range(5):
        a.batch(step(number))
    late, fresh = a.batch(step(40)), b.batch(step(40))
    assert torch.equal(late.points, fresh.points) and torch.equal(late.views, fresh.views)
    assert not torch.equal(PairBatcher(source, 16, seed=8).batch(step(40)).points, late.points)


def make_batchers(source, rank, world):
    share = {"seed": 3, "rank": rank, "world": world}
    return {
        "pairs": PairBatcher(source, 16, **share),
        "neighbors": NeighborBatcher(source, 16, run=8, **share),
        "progressive": ProgressiveBatcher(source, 16, **share),
        "classes": ClassBatcher(source, 16, 4, **share),
    }


@pytest.mark.parametrize("name", ["pairs", "neighbors", "progressive", "classes"])
def test_ranks_together_see_the_batch_of_one_process(name):
    source = Points(torch.randint(2, 6, (200,), generator=torch.Generator().manual_seed(0)), torch.arange(200) // 50)
    whole = make_batchers(source, 0, 1)[name].batch(step(9))
    parts = [make_batchers(source, rank, 4)[name].batch(step(9)) for rank in range(4)]
    assert torch.equal(torch.cat([part.points for part in parts]), whole.points)
    assert torch.equal(torch.cat([part.views for part in parts]), whole.views)
    if whole.valid is not None:
        assert torch.equal(torch.cat([part.valid for part in parts]), whole.valid)
    assert len(torch.unique(whole.points)) == len(whole.points)


def test_neighbours_come_in_runs_from_one_photo_cut_anew_each_epoch():
    source = Points(torch.randint(1, 6, (500,), generator=torch.Generator().manual_seed(0)))
    batcher = NeighborBatcher(source, 32, run=8, seed=2)
    epochs = []
    for epoch in range(2):
        seen = []
        for number in range(batcher.steps_per_epoch):
            batch = batcher.batch(step(epoch * batcher.steps_per_epoch + number))
            assert (batch.views[:, 0] != batch.views[:, 1]).all()
            assert (batch.views < source.num_views[batch.points][:, None]).all()
            seen.append(batch.points)
        points = torch.cat(seen)
        assert len(torch.unique(points)) == len(points) > 0.9 * int((source.num_views >= 2).sum())
        images = source.first_image[points].reshape(-1, 8)
        # Four images: at most four runs lie across a border between two of them.
        assert int((images != images[:, :1]).any(1).sum()) <= 4
        epochs.append({frozenset(run) for run in points.reshape(-1, 8).tolist()})
    assert not epochs[0] & epochs[1]


def test_neighbours_need_photos_and_runs_that_fit(monkeypatch):
    source = Points(torch.full((100,), 2))
    with pytest.raises(ValueError, match="do not make up a batch"):
        NeighborBatcher(source, 16, run=5)
    with pytest.raises(ValueError, match="needs 7 runs of 9 neighbors, but the source has only 6"):
        NeighborBatcher(Points(torch.full((64,), 2)), 63, run=9)
    monkeypatch.setattr(Points, "first_image", None)
    with pytest.raises(ValueError, match="built from images"):
        NeighborBatcher(source, 16, run=4)


def test_progressive_goes_through_all_points_in_sequence():
    source = Points(torch.full((100,), 2))
    batcher = ProgressiveBatcher(source, 20, sequential=10)
    first = torch.cat([batcher.batch(step(number)).points[:10] for number in range(batcher.steps_per_epoch)])
    assert torch.equal(first, torch.arange(100))
    for number in range(20):
        points = batcher.batch(step(number)).points
        assert len(torch.unique(points)) == 20


def test_too_small_sources_are_refused():
    with pytest.raises(ValueError, match="a batch of 64 points needs as many"):
        PairBatcher(Points(torch.full((20,), 2)), 64)
    with pytest.raises(ValueError, match="evenly by 3 processes"):
        PairBatcher(Points(torch.full((20,), 2)), 10, world=3)


def test_batches_compile_into_one_graph():
    batcher = PairBatcher(Points(torch.full((100,), 3)), 8)
    compiled = torch.compile(batcher.batch, fullgraph=True, backend="eager")
    assert torch.equal(compiled(step(3)).points, batcher.batch(step(3)).points)


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
