"""Images divided among processes: the patches of a store that one process holds alone."""

import numpy as np
import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.data.image_bank import ResidentImages
from patchprint.data.sharded_images import DividedImages, assign_images
from patchprint.data.tracks import TrackStore
from patchprint.ops.sampling import ImagePyramids
from support import divided_ranks
from support.processes import run_together
from support.synthetic_tracks import all_views, plane_tracks


def test_every_process_gets_the_patches_that_it_asks_for(tmp_path):
    """Three processes with seven images: one asks for much, one for nothing."""
    store = TrackStore.from_images(*plane_tracks(count=7))
    store.save(tmp_path / "store")
    run_together(len(divided_ranks.WANTED), divided_ranks.sample, tmp_path)
    held = 0
    for rank, count in enumerate(divided_ranks.WANTED):
        points, views = all_views(count)
        warp = torch.eye(2, 3).expand(*views.shape, 2, 3) * 1.5
        expected = store.sample(points, views, divided_ranks.SIZE, warp)
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert torch.equal(found["resident"], expected)
        torch.testing.assert_close(found["streamed"], expected)
        assert found["resident photos"] == found["streamed photos"]
        held += found["resident photos"]
    assert held == 7


def test_all_hold_about_as_many_pixels():
    sizes = np.random.default_rng(0).integers(100, 1000, (200, 2))
    holder = assign_images(sizes, 8)
    pixels = np.bincount(holder, weights=np.prod(sizes, axis=1))
    assert len(pixels) == 8
    assert pixels.max() / pixels.min() < 1.05


def test_more_processes_than_photos_are_refused():
    assert sorted(assign_images(np.full((3, 2), 50), 3)) == [0, 1, 2]
    with pytest.raises(UserError, match="4 processes cannot divide 3 images; start at most 3"):
        assign_images(np.full((3, 2), 50), 4)


def test_pixels_of_a_photo_that_another_process_holds_are_refused():
    mine = np.arange(48, dtype=np.uint8).reshape(6, 8)
    images = DividedImages(ResidentImages(ImagePyramids.build([mine])), torch.tensor([1, 0]))
    assert len(images) == 2
    assert np.array_equal(images.pixels(1), mine)
    with pytest.raises(UserError, match="image 0 is held by process 1"):
        images.pixels(0)
