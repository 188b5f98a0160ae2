"""Every batcher that a config can name, made from it."""

import pytest
import torch

from patchprint.training import RECIPES, resolve
from patchprint.training.assembly import BATCHERS, create_batcher
from support.bare_points import ragged_points
from support.training_data import SHORT, images, with_mined_labels


def config(name, **changes):
    views = {"views": BATCHERS[name].views_of_point or 2}
    return resolve("hardnet", **{**SHORT, "batcher": name, "batch": 16, **views, **changes})


@pytest.mark.parametrize("name", BATCHERS)
def test_batches_hold_what_the_config_says(name):
    options = {"batcher_options": {"run": 8}} if name == "neighbors" else {}
    source, settings = with_mined_labels(images(scenes=4)), config(name, **options)
    batch = create_batcher(settings, source).batch(torch.tensor(0))
    assert batch.views.shape == (16, settings.views)
    assert len(source.observation(batch.points, batch.views[:, :1]).unique()) == 16
    assert name == "instances" or len(batch.points.unique()) == (16 if settings.views > 1 else 4)
    assert ((batch.views[:, :1] == batch.views[:, -1:]) == (name == "instances" or settings.views == 1)).all()
    assert (batch.views < source.num_views[batch.points][:, None]).all()


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name.startswith("doap") and "shipped" not in name])
def test_doap_sees_whole_groups_as_the_paper_says(recipe):
    """Through the recipe as it is: the number of positives of a query is that of the data, and no patch is there twice."""
    source = ragged_points(points=4000, most=6)
    batcher = create_batcher(resolve(recipe), source)
    for number in range(3):
        batch = batcher.batch(torch.tensor(number))
        assert batch.views.shape == (1024, 1)
        assert len(source.observation(batch.points, batch.views).unique()) == 1024
        counts = batch.valid[:, 0]
        same = (batch.label[:, None] == batch.label) & counts[:, None] & counts
        positives = same.sum(1) - 1
        assert torch.equal(positives[counts], source.num_views[batch.points][counts] - 1)
        assert torch.equal(same[counts][:, counts], (batch.points[:, None] == batch.points)[counts][:, counts])
        assert int(counts.sum()) > 1024 - 2 * 6


def test_sequences_without_mining_are_drawn_alike_and_ignored_inside():
    source = ragged_points(points=4000, most=6)
    batch = create_batcher(resolve("doap-hpatches"), source).batch(torch.tensor(0))
    scene = source.scene[batch.points]
    groups = [len(batch.points[scene == number].unique()) for number in range(4)]
    assert max(groups) - min(groups) <= 1
    assert torch.equal(batch.ignore, (scene[:, None] == scene) & (batch.points[:, None] != batch.points))


@pytest.mark.parametrize(
    ("name", "views", "words"),
    [
        ("groups", 2, "--batcher groups takes whole groups, .* give --views 1, not 2"),
        ("sequence-pairs", 16, "give --views 1, not 16"),
        ("pairs", 1, "--views is 1, but --batcher pairs needs 2"),
        ("classes", 1, "--views is 1, but --batcher classes needs 2"),
        ("neighbors", 3, "--batcher neighbors takes 2 views of a point, not --views 3"),
    ],
)
def test_views_that_a_batcher_does_not_take(name, views, words):
    with pytest.raises(ValueError, match=words):
        create_batcher(config(name, views=views), images())


@pytest.mark.parametrize(
    ("points", "name", "batch", "words"),
    [
        (12, "pairs", 16, "12 points with two views .* fewer than --batch 16; give --batch 8 or more data"),
        (1, "pairs", 16, "1 points .*; give more data"),
        (12, "groups", 64, "48 patches of points with two views for training, fewer than --batch 64"),
    ],
)
def test_too_few_data_are_said_with_what_would_do(points, name, batch, words):
    with pytest.raises(ValueError, match=f"the data have {words}"):
        create_batcher(config(name, batch=batch), images().select(torch.arange(points)))


@pytest.mark.parametrize("name", ["pairs", "neighbors"])
def test_points_that_are_seen_once_are_shown_twice_where_that_is_wanted(name):
    source = images(views=1)
    options = {"run": 8} if name == "neighbors" else {}
    with pytest.raises(ValueError, match="the data have 0 points with two views"):
        create_batcher(config(name, batcher_options=options), source)
    batch = create_batcher(config(name, batcher_options={**options, "min_views": 1}), source).batch(torch.tensor(0))
    assert len(batch.points.unique()) == 16 and (batch.views == 0).all()


def test_options_of_another_kind_are_named():
    with pytest.raises(ValueError, match="min_views is 'one', which is not a number"):
        create_batcher(config("pairs", batcher_options={"min_views": "one"}), images())
