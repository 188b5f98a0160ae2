"""Images in memory, or read and decoded when a patch is cut from them."""

import numpy as np
import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.data import manifest
from patchprint.data.image_bank import DividedImages, ResidentImages, assign_images
from patchprint.data.tracks import TrackStore
from patchprint.interop.images import encode_image
from patchprint.ops.sampling import ImagePyramids
from support import divided_ranks
from support.known_images import texture
from support.peak_memory import memory_grows_by_less_than
from support.processes import run_together
from support.synthetic_tracks import all_views, plane_tracks


def test_streamed_images_give_the_same_patches(scene, tmp_path):
    store = TrackStore.from_images(*scene)
    store.save(tmp_path / "s")
    streamed = TrackStore.open(tmp_path / "s", max_resident_gb=1e-5)
    points, views = all_views()
    torch.testing.assert_close(streamed.sample(points, views, 32), store.sample(points, views, 32))


def test_a_hundred_thousand_images_stay_on_disk(tmp_path):
    """A sparse file stands in for 200 GB of images: only those that are sampled are read and decoded."""
    count, slot, real = 100_000, 2_000_000, (0, 54_321, 99_999)
    folder = tmp_path / "huge"
    folder.mkdir()
    image = texture(768, 1024)
    data = encode_image(image)
    assert len(data) < slot
    offset = np.arange(count + 1, dtype=np.int64) * slot
    with open(folder / "images.bin", "wb") as stream:
        for number in real:
            stream.seek(int(offset[number]))
            stream.write(data)
        stream.truncate(int(offset[-1]))
    points = count * 2
    arrays = {
        "image": np.arange(points * 2, dtype=np.int32) // 2 % count,
        "xy": np.full((points * 2, 2), 300, np.float32),
        "scale": np.full(points * 2, 3, np.float32),
        "angle": np.zeros(points * 2, np.float32),
        "point": np.arange(points * 2, dtype=np.int32) // 2,
        "scene": np.zeros(points, np.int32),
        "part": np.zeros(points, np.uint8),
        "image_size": np.tile(np.array([[1024, 768]], np.int32), (count, 1)),
        "image_offset": offset,
    }
    manifest.save(folder, arrays)
    (folder / "image_names.txt").write_text("".join(f"{i}.png\n" for i in range(count)))
    (folder / "scene_names.txt").write_text("huge\n")
    listing = {f.name: {"bytes": f.stat().st_size, "sha256": ""} for f in folder.iterdir()}
    facts = {"kind": "tracks", "version": manifest.VERSION, "patch_scale": 12.0, "scenes": ["huge"], "files": listing}
    manifest.files.write_json(folder / "manifest.json", facts)
    with memory_grows_by_less_than(mib=300):  # the pyramids of all images would take 100 GiB
        store = TrackStore.open(folder, max_resident_gb=0.01)
        got = store.sample(torch.tensor(real), torch.tensor([0, 1]).expand(3, 2), 32)
    expected = TrackStore.from_images([image] * 2, plane_tracks(count=2)[1]).images
    frame = torch.eye(2)[None] * 18
    wanted = expected.cut(torch.zeros(1, dtype=torch.int64), torch.full((1, 2), 300.0), frame, 32)
    torch.testing.assert_close(got.reshape(6, 1, 32, 32), wanted.expand(6, 1, 32, 32))


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


def test_more_processes_than_images_are_refused():
    assert sorted(assign_images(np.full((3, 2), 50), 3)) == [0, 1, 2]
    with pytest.raises(UserError, match="4 processes cannot divide 3 images; start at most 3"):
        assign_images(np.full((3, 2), 50), 4)


def test_pixels_of_a_image_that_another_process_holds_are_refused():
    mine = np.arange(48, dtype=np.uint8).reshape(6, 8)
    images = DividedImages(ResidentImages(ImagePyramids.build([mine])), torch.tensor([1, 0]))
    assert len(images) == 2
    assert np.array_equal(images.pixels(1), mine)
    with pytest.raises(UserError, match="image 0 is held by process 1"):
        images.pixels(0)
