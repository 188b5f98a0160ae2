"""What every source of patches can do, whatever it is made of."""

import numpy as np
import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.data import open_source, splits
from patchprint.data.builders.labeled_images import build
from patchprint.data.image_store import ImageStore
from patchprint.data.open_store import ConcatSource
from patchprint.data.patch_source import MinedLabels, PatchSource
from patchprint.data.preview import WHITE, contact_sheet
from patchprint.data.tracks import TrackStore
from support.labeled_sets import color_of, write_folders
from support.stores import write_patches
from support.synthetic_tracks import plane_tracks


class Numbers(PatchSource):
    """Patches that are filled with the number of their observation."""

    is_resident = True

    def __init__(self, part):
        num_views = torch.tensor([2, 3, 2, 4])
        super().__init__(num_views, torch.tensor([0, 0, 1, 1]), part, patch_scale=10.0)

    def sample(self, points, views, size, warp=None):
        return self.observation(points, views)[..., None, None, None].float().expand(-1, -1, 1, size, size)


def first_views(source):
    points = torch.arange(source.num_points)
    return source.sample(points, torch.zeros(len(points), 1, dtype=torch.int64), 1).flatten().tolist()


@pytest.mark.parametrize("chosen", [torch.tensor([3, 1]), torch.tensor([False, True, False, True])])
def test_selected_points_keep_their_patches_and_the_source_stays_whole(chosen):
    source = Numbers(None)
    some = source.select(chosen)
    order = chosen if chosen.dtype == torch.int64 else chosen.nonzero()[:, 0]
    assert some.num_views.tolist() == source.num_views[order].tolist()
    assert first_views(some) == [first_views(source)[i] for i in order]
    assert (source.num_points, some.patch_scale) == (4, 10.0)
    assert first_views(some.select(torch.tensor([1]))) == [first_views(source)[order[1]]]


def test_split_by_the_part_of_each_point():
    source = Numbers(torch.tensor([0, 1, 2, 0], dtype=torch.uint8))
    assert source.split("train").scene.tolist() == [0, 1]
    assert source.split("val").num_views.tolist() == [3]
    with pytest.raises(ValueError, match="not 'exam'"):
        source.split("exam")
    with pytest.raises(ValueError, match="carry no split"):
        Numbers(None).split("train")


def test_all_but_the_test_part_is_learnable():
    source = Numbers(torch.tensor([3, 1, 2, 0], dtype=torch.uint8))
    assert first_views(source.learnable()) == first_views(source)[1:]
    assert Numbers(None).learnable().num_points == 4


def test_moving_takes_everything_along():
    source = Numbers(None)
    source.mined = MinedLabels(torch.zeros(11, dtype=torch.int16), torch.zeros(2, 3, 3, dtype=torch.bool))
    moved = source.to("meta")
    assert moved.device.type == moved.scene.device.type == moved._start.device.type == "meta"
    assert moved.mined.cluster.device.type == "meta"
    assert source.device.type == source.mined.cluster.device.type == "cpu"


def test_several_stores_are_one_source(tmp_path, patches):
    write_patches(tmp_path / "a", patches)
    write_patches(tmp_path / "b", 255 - patches)
    both = open_source([tmp_path / "a", tmp_path / "b"])
    assert isinstance(both, ConcatSource) and isinstance(both, PatchSource)
    assert both.num_points == 14 and both.scene.unique().tolist() == [0, 1, 2, 3]
    points, views = torch.tensor([2, 9]), torch.zeros(2, 1, dtype=torch.int64)
    first, second = both.sample(points, views, 64)
    assert torch.allclose(first, 1.0 - second, atol=1e-6)
    assert both.split("val").num_points == 10
    assert torch.equal(both.select(points).sample(torch.tensor([0, 1]), views, 64), both.sample(points, views, 64))
    rows = both.observation(torch.arange(14), torch.zeros(14, 1, dtype=torch.int64))
    assert len(rows.unique()) == 14, "no two views have one number"


def test_only_images_are_divided(tmp_path, patches):
    write_patches(tmp_path / "strips", patches)
    TrackStore.from_images(*plane_tracks()).save(tmp_path / "photos")
    assert not open_source(tmp_path / "photos", divided=True).is_divided, "one process holds all"
    with pytest.raises(UserError, match="strips holds none"):
        open_source([tmp_path / "photos", tmp_path / "strips"], patch_scale=12.0, divided=True)


def test_a_mix_says_at_which_scale_it_was_cut(tmp_path, patches):
    write_patches(tmp_path / "strips", patches, patch_scale=10.0)
    write_patches(tmp_path / "ubc", patches, patch_scale=12.0)
    write_patches(tmp_path / "more", patches, patch_scale=10.0)
    images, tracks = plane_tracks()
    TrackStore.from_images(images, tracks, patch_scale=24.0).save(tmp_path / "photos")
    assert open_source(tmp_path / "strips").patch_scale == 10
    assert open_source([tmp_path / "strips", tmp_path / "more"]).patch_scale == 10
    mixed = open_source([tmp_path / "strips", tmp_path / "photos"])
    assert mixed.patch_scale == mixed.sources[1].patch_scale == 10, "images are cut as the stored patches are"
    with pytest.raises(ValueError, match=r"10 and 12 sigma; give --patch-scale"):
        open_source([tmp_path / "strips", tmp_path / "ubc"])
    assert open_source([tmp_path / "strips", tmp_path / "ubc"], patch_scale=11.0).patch_scale == 11


def test_several_folders_are_one_source(scene, tmp_path):
    other = plane_tracks(points=30, count=3, seed=1)
    TrackStore.from_images(*scene).save(tmp_path / "a")
    TrackStore.from_images(*other).save(tmp_path / "b")
    both = open_source([tmp_path / "a", tmp_path / "b"])
    assert both.num_points == 90 and both.scene.unique().tolist() == [0, 1]
    points, views = torch.arange(60, 70), torch.zeros(10, 1, dtype=torch.int64)
    alone = open_source(tmp_path / "b").sample(points - 60, views, 32)
    assert torch.equal(both.sample(points, views, 32), alone)
    assert both.split("val").num_points == sum(open_source(tmp_path / n).split("val").num_points for n in "ab")


def test_split_shows_no_held_out_point_in_training(scene):
    _, tracks = scene
    part = splits.by_region(tracks, patch_scale=12.0)
    counts = np.bincount(part, minlength=3)
    assert counts[splits.VAL] in (7, 8) and counts[splits.NEITHER] > 0 and counts[splits.TRAIN] > 20
    for row in np.flatnonzero(part[tracks.point] == splits.TRAIN):
        held = (tracks.image == tracks.image[row]) & (part[tracks.point] == splits.VAL)
        distance = np.abs(tracks.xy[held] - tracks.xy[row]).max(1)
        assert (distance > tracks.scale[row] * 6.0).all()
    assert np.array_equal(part, splits.by_region(tracks, patch_scale=12.0))


def test_a_published_test_part_is_apart_and_the_rest_is_split_as_without_it():
    scene = np.repeat(np.arange(10), 5)
    is_test = np.isin(scene, (0, 9))
    part = splits.beside_test(scene, is_test)
    assert ((part == splits.TEST) == is_test).all()
    assert np.array_equal(part[~is_test], splits.by_scene(scene[~is_test]))
    assert set(scene[part == splits.VAL]) == {8}, "the last scene that is no test"
    one = splits.beside_test(np.repeat([0, 1], 100), np.arange(200) >= 100)
    assert np.bincount(one).tolist() == [88, 12, 0, 100]
    assert (splits.beside_test(np.zeros(4, int), np.ones(4, bool)) == splits.TEST).all()


def test_rows_show_one_point_and_end_white(scene):
    store = TrackStore.from_images(*scene)
    sheet = contact_sheet(store, num_points=5, num_views=6, size=16, columns=1)
    assert sheet.shape[0] == 5 * 18 and sheet.dtype == np.uint8
    cells = sheet[:16, : 6 * 18].reshape(16, 6, 18)[:, :, :16]
    for view in range(1, 4):  # a point has four views, of the same pixels
        assert np.abs(cells[:, view].astype(int) - cells[:, 0]).mean() < 3
    assert cells[:, 0].min() == 0 and cells[:, 0].max() == 255, "contrast is stretched"
    assert (cells[:, 4:] == WHITE).all()


def test_colors_are_shown(tmp_path):
    build(write_folders(tmp_path / "set", "ab", images=3), tmp_path / "out", train_classes=2)
    sheet = contact_sheet(ImageStore.open(tmp_path / "out"), num_views=4, size=8, columns=1)
    assert sheet.shape[0] == 2 * 10 and sheet.shape[2] == 3
    colors = {tuple(np.argsort(sheet[row, 0])) for row in (0, 10)}
    assert colors == {tuple(np.argsort(color_of(label))) for label in "ab"}, (
        "stretched, but as red, green and blue were"
    )
    assert np.ptp(sheet[0, 0]) == 255 and (sheet[:, 30:] == WHITE).all()


def test_nothing_to_show_is_said(scene):
    store = TrackStore.from_images(*scene)
    store.num_views = torch.ones_like(store.num_views)
    with pytest.raises(ValueError, match="no point with two views"):
        contact_sheet(store)
