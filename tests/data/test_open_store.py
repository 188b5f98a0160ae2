"""Stores opened by their folders, alone or several as one source."""

import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.data import open_source
from patchprint.data.open_store import ConcatSource
from patchprint.data.patch_source import PatchSource
from patchprint.data.tracks import TrackStore
from support.stores import write_patches
from support.synthetic_tracks import plane_tracks


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


def test_only_photos_are_divided(tmp_path, patches):
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
    with pytest.raises(ValueError, match=r"10 and 12 sigma; say with --patch-scale"):
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
