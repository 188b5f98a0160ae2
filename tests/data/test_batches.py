"""Batches: distinct points, distinct views, resumable, the same for one process and for several."""

import pytest
import torch

from patchprint.data.batches import ClassBatcher, NeighborBatcher, PairBatcher, ProgressiveBatcher
from patchprint.data.group_batches import (
    GroupBatcher,
    LeadingGroupBatcher,
    SceneGroupBatcher,
    SequencePairBatcher,
)
from support.bare_points import Points, ragged_points


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


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (PairBatcher, {}),
        (NeighborBatcher, {"run": 8}),
        (ProgressiveBatcher, {}),
        (ClassBatcher, {"num_views": 4}),
        (GroupBatcher, {"ignore_same_scene": True}),
        (LeadingGroupBatcher, {}),
        (SceneGroupBatcher, {"ignore_same_scene": True}),
        (SequencePairBatcher, {}),
    ],
)
def test_ranks_together_see_the_batch_of_one_process(make, options):
    source = ragged_points()
    whole = make(source, 64, seed=3, **options).batch(step(9))
    parts = [make(source, 64, seed=3, rank=rank, world=4, **options).batch(step(9)) for rank in range(4)]
    for name in ("points", "views", "valid", "label"):
        wanted = getattr(whole, name)
        assert wanted is None or torch.equal(torch.cat([getattr(part, name) for part in parts]), wanted), name
    assert whole.label is not None or len(torch.unique(whole.points)) == len(whole.points)
    for part in parts:
        assert part.ignore is whole.ignore is None or torch.equal(part.ignore, whole.ignore)
    with pytest.raises(ValueError, match="evenly by 3 processes"):
        make(source, 64, world=3, **options)


def test_neighbors_come_in_runs_from_one_image_cut_anew_each_epoch():
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


def test_neighbors_need_images_and_runs_that_fit(monkeypatch):
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


BATCHERS = (GroupBatcher, LeadingGroupBatcher, SceneGroupBatcher, SequencePairBatcher)
EVERY_BATCHER = pytest.mark.parametrize("make", BATCHERS)


@EVERY_BATCHER
def test_groups_are_whole_and_no_patch_is_there_twice(make):
    source = ragged_points()
    batcher = make(source, 64)
    for number in range(30):
        batch = batcher.batch(step(number))
        assert batch.points.shape == batch.label.shape == (64,) and batch.views.shape == batch.valid.shape == (64, 1)
        rows = source.observation(batch.points, batch.views)[:, 0]
        assert len(rows.unique()) == 64, "batch norm sees each patch once"
        valid = batch.valid[:, 0]
        for label in batch.label.unique():
            of_group = batch.label == label
            (point,) = batch.points[of_group].unique()
            is_whole = int(of_group.sum()) == int(source.num_views[point])
            assert valid[of_group].all() if is_whole else not valid[of_group].any(), "a cut group counts for nothing"
        assert len(batch.points.unique()) == len(batch.label.unique()), "one group has one label"
        assert int((~valid).sum()) < (2 if make is SequencePairBatcher else 1) * 9, "all but a last group are whole"
        assert (source.num_views[batch.points] >= 2).all()


@pytest.mark.parametrize("make", [PairBatcher, *BATCHERS])
def test_batches_depend_on_seed_and_step_alone_and_compile_into_one_graph(make):
    source = ragged_points()
    batcher = make(source, 64, seed=7)
    for number in range(3):
        batcher.batch(step(number))
    fresh = make(source, 64, seed=7)
    assert torch.equal(batcher.batch(step(40)).points, fresh.batch(step(40)).points)
    assert not torch.equal(fresh.batch(step(41)).points, fresh.batch(step(40)).points)
    assert not torch.equal(make(source, 64, seed=8).batch(step(40)).points, fresh.batch(step(40)).points)
    torch._dynamo.reset()
    compiled = torch.compile(fresh.batch, fullgraph=True, backend="eager")
    assert torch.equal(compiled(step(3)).points, batcher.batch(step(3)).points)


def test_an_epoch_takes_every_group_about_once():
    source = ragged_points(points=2000)
    batcher, taken = GroupBatcher(source, 64), torch.zeros(2000, dtype=torch.int64)
    for number in range(batcher.steps_per_epoch):
        batch = batcher.batch(step(number))
        taken[batch.points[batch.valid[:, 0]].unique()] += 1
    several = source.num_views >= 2
    assert not taken[~several].any()
    assert 0.95 < float(taken[several].double().mean()) < 1.05
    assert float((taken[several] == 1).double().mean()) > 0.7
    assert int(taken.max()) <= 3
    first = batcher.batch(step(0)).points
    assert not torch.equal(batcher.batch(step(batcher.steps_per_epoch)).points, first), "another order each epoch"


def test_equal_groups_fill_a_batch_exactly():
    batcher = GroupBatcher(Points(torch.full((100,), 16)), 64)
    seen = torch.cat([batcher.batch(step(number)).points for number in range(batcher.steps_per_epoch)])
    assert batcher.batch(step(0)).valid.all()
    assert torch.equal(seen.unique(return_counts=True)[1], torch.full((100,), 16))


def test_every_group_leads_a_batch_and_others_are_random():
    source = Points(torch.full((30,), 10))
    batcher = LeadingGroupBatcher(source, 64)
    assert batcher.steps_per_epoch == 30
    others = []
    for number in range(60):
        batch = batcher.batch(step(number))
        assert batch.points[:10].tolist() == [number % 30] * 10 and batch.valid[:10].all()
        others.append(batch.points[10:60:10])
    counts = torch.cat(others).bincount(minlength=30)
    assert int(counts.min()) > 0 and len(torch.stack(others).unique(dim=0)) > 50


def test_groups_of_all_scenes_alike():
    scene = torch.tensor([0] * 10 + [1] * 100 + [2] * 20 + [3] * 40)
    source = Points(torch.full((170,), 4), scene)
    taken = torch.zeros(170, dtype=torch.int64)
    for number in range(200):
        batch = SceneGroupBatcher(source, 40).batch(step(number))
        points = batch.points[::4]
        of_scene = scene[points].bincount(minlength=4)
        assert int(of_scene.max()) - int(of_scene.min()) <= 1
        taken[points] += 1
    per_scene = torch.zeros(4, dtype=torch.int64).index_add(0, scene, taken).double()
    assert (per_scene / 500 - 1).abs().max() < 0.1
    assert int(taken.min()) > 0


def test_sequence_pairs_visit_every_pair_and_ignore_what_is_not_mined():
    source = ragged_points(most=5)
    batcher, pairs = SequencePairBatcher(source, 32), set()
    assert batcher.steps_per_epoch == 6
    for number in range(6):
        batch = batcher.batch(step(number))
        scene = source.scene[batch.points]
        assert len(scene[:16].unique()) == len(scene[16:].unique()) == 1
        pairs.add(frozenset(scene.tolist()))
        row = source.observation(batch.points, batch.views)[:, 0]
        for i in range(32):
            for j in range(32):
                cluster = source.mined.cluster[row[[i, j]]].long()
                distractor = source.mined.distractor[scene[i], cluster[0], cluster[1]]
                expected = scene[i] == scene[j] and batch.points[i] != batch.points[j] and not distractor
                assert bool(batch.ignore[i, j]) == bool(expected)
    assert len(pairs) == 6


def test_batches_of_more_sequences_take_random_ones():
    source, seen = ragged_points(most=5), set()
    batcher = SequencePairBatcher(source, 33, sequences=3)
    for number in range(20):
        shares = source.scene[batcher.batch(step(number)).points].reshape(3, 11)
        assert all(len(share.unique()) == 1 for share in shares)
        seen.add(frozenset(shares[:, 0].tolist()))
    assert len(seen) == 4 and all(len(three) == 3 for three in seen)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="largest group has 30 patches and does not fit into 16;"):
        GroupBatcher(Points([2] * 50 + [30]), 16)
    assert GroupBatcher(Points([2] * 50 + [30]), 16, max_views=16).batch(step(0)).valid.all()
    with pytest.raises(ValueError, match="the 6 groups of the source are too few for a batch of 16 patches"):
        GroupBatcher(Points([2] * 6), 16)
    with pytest.raises(ValueError, match="at least 2 views, and the source has none"):
        GroupBatcher(Points([1] * 50), 16)
    with pytest.raises(ValueError, match="takes 4 groups of every scene, but one has only 3"):
        SceneGroupBatcher(Points([2] * 23, [0] * 3 + [1] * 20), 16)
    with pytest.raises(ValueError, match="no mined labels"):
        SequencePairBatcher(Points([2] * 20), 16)
    source = ragged_points()
    with pytest.raises(ValueError, match="2 sequences with at least 600 patches each"):
        SequencePairBatcher(source, 1200)
    with pytest.raises(ValueError, match="give an even number"):
        SequencePairBatcher(source, 33)
