"""TrackStore: patches out of images, on disk and in memory, split by region, bounded for huge sets."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from patchprint.common import rng
from patchprint.common.types import Keypoints
from patchprint.data import open_source, track_files
from patchprint.data.augment import create
from patchprint.data.patch_source import PatchSource
from patchprint.data.tracks import Tracks, TrackStore
from patchprint.interop.images import encode_image
from patchprint.ops.sampling import ImagePyramids, cut_patches
from support.synthetic_tracks import all_views


def test_sample_equals_the_inference_sampler(scene):
    images, tracks = scene
    store = TrackStore.from_images(images, tracks, patch_scale=10.0)
    assert isinstance(store, PatchSource)
    points, views = all_views()
    patches = store.sample(points, views, 32)
    assert patches.shape == (10, 4, 1, 32, 32)
    pyramids = ImagePyramids.build(images)
    rows = store.observation(points, views).reshape(-1).numpy()
    keypoints = Keypoints(tracks.xy[rows], tracks.scale[rows], tracks.angle[rows])
    expected = cut_patches(pyramids, torch.from_numpy(tracks.image[rows]).long(), keypoints, 10.0, 32)
    torch.testing.assert_close(patches.flatten(0, 1), expected, atol=1e-5, rtol=0)


def test_views_of_a_point_show_the_same_pixels(scene):
    store = TrackStore.from_images(*scene)
    patches = store.sample(*all_views(60), 32)
    assert float((patches - patches[:, :1]).abs().mean()) < 1e-3
    assert float((patches[1:] - patches[:-1]).abs().mean()) > 0.05


def test_warp_reads_elsewhere_in_the_image(scene):
    store = TrackStore.from_images(*scene)
    points, views = all_views()
    turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]).expand(10, 4, 2, 3)
    plain, turned = store.sample(points, views, 32), store.sample(points, views, 32, turn)
    torch.testing.assert_close(turned, torch.rot90(plain, 1, (-2, -1)), atol=2e-3, rtol=0)
    # Half the scale is the inner half of a patch twice as fine.
    half = torch.tensor([[0.5, 0.0, 0.25], [0.0, 0.5, 0.0]]).expand(10, 4, 2, 3)
    fine = with_patch_scale(store, 12.0).sample(points, views, 64)[..., 16:48, 24:56]
    torch.testing.assert_close(store.sample(points, views, 32, half), fine, atol=2e-2, rtol=0)


def with_patch_scale(store, patch_scale):
    other = store.to("cpu")
    other.patch_scale = patch_scale
    return other


def test_round_trip_through_a_folder(scene, tmp_path):
    store = TrackStore.from_images(*scene)
    store.save(tmp_path / "s")
    again = open_source(tmp_path / "s")
    points, views = all_views()
    assert torch.equal(again.sample(points, views, 32), store.sample(points, views, 32))
    for part in ("train", "val"):
        assert torch.equal(again.split(part).num_views, store.split(part).num_views)
    with pytest.raises(ValueError, match="exists already"):
        store.save(tmp_path / "s")


def test_sampling_compiles_into_one_graph(scene):
    store = TrackStore.from_images(*scene)
    strong = create("strong")

    def step(key, points, views):
        return strong.light(key, store.sample(points, views, 32, strong.warp(key, torch.ones(8, 2, 2))))

    points, views = torch.arange(8), torch.arange(2).expand(8, 2)
    compiled = torch.compile(step, fullgraph=True, backend="eager")
    key = rng.key(0, 1)
    torch.testing.assert_close(compiled(key, points, views), step(key, points, views))


def test_observations_may_come_in_any_order():
    tracks = Tracks.from_observations(
        image=np.array([1, 0, 0]), xy=np.zeros((3, 2)), scale=np.ones(3), angle=np.zeros(3), point=np.array([70, 5, 70])
    )
    assert tracks.point.tolist() == [0, 1, 1] and tracks.image.tolist() == [0, 1, 0]
    assert tracks.num_views().tolist() == [1, 2]


def test_max_mb_encodes_again_or_refuses(scene, tmp_path):
    images, tracks = scene
    names = track_files.Names.numbered(4, 1)
    whole = sum(len(encode_image(image)) for image in images)
    limit = whole / 2**20 / 3
    track_files.write(tmp_path / "s", map(encode_image, images), tracks, names, max_mb=limit)
    assert (tmp_path / "s" / "images.bin").stat().st_size <= limit * 2**20
    assert not (tmp_path / "s" / "original.bin").exists()
    plain = TrackStore.from_images(images, tracks).sample(*all_views(), 32)
    assert float((open_source(tmp_path / "s").sample(*all_views(), 32) - plain).abs().mean()) < 0.05
    with pytest.raises(ValueError, match="do not fit into --max-mb"):
        track_files.write(tmp_path / "t", map(encode_image, images), tracks, names, max_mb=0.001)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": 9}, "a track names image 9, but there are only 4 images"),
        ({"xy": np.nan}, "not a number, or no size, in image"),
        ({"xy": 5000.0}, "the image was resized or exchanged"),
        ({"point": 70}, "sorted by point"),
    ],
)
def test_bad_tracks_leave_nothing_behind(scene, tmp_path, change, message):
    images, tracks = scene
    name, value = next(iter(change.items()))
    values = getattr(tracks, name).copy()
    values[-1] = value
    bad = dataclasses.replace(tracks, **{name: values}, part=np.zeros(60, np.uint8))
    with pytest.raises(ValueError, match=message):
        track_files.write(tmp_path / "s", map(encode_image, images), bad, track_files.Names.numbered(4, 1))
    assert list(tmp_path.iterdir()) == []


def test_corrupt_jpeg_names_the_image(scene, tmp_path):
    images, tracks = scene
    encoded = [encode_image(image, ".jpg", 90) for image in images]
    encoded[2] = encoded[2][:40]
    with pytest.raises(ValueError, match=r"000002.png is cut short"):
        track_files.write(tmp_path / "s", encoded, tracks, track_files.Names.numbered(4, 1))
    assert list(tmp_path.iterdir()) == []


def test_damaged_stores_are_refused(scene, tmp_path):
    TrackStore.from_images(*scene).save(tmp_path / "s")
    with open(tmp_path / "s" / "images.bin", "r+b") as stream:
        stream.truncate(1000)
    with pytest.raises(ValueError, match=r"images.bin is missing or not"):
        open_source(tmp_path / "s")
    (tmp_path / "s" / "manifest.json").write_text(json.dumps({"kind": "tracks", "version": 99, "files": {}}))
    with pytest.raises(ValueError, match="has version 99"):
        open_source(tmp_path / "s")
    with pytest.raises(ValueError, match="is not a patch store"):
        open_source(tmp_path)
