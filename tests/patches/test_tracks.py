"""TrackStore: patches out of photos, on disk and in memory, split by region, bounded for huge sets."""

import dataclasses
import json
import resource

import numpy as np
import pytest
import torch

from patchprint import rng
from patchprint.patches import manifest, open_source, splits, track_files
from patchprint.patches.augment import create
from patchprint.patches.codecs import encode_jpeg, encode_png
from patchprint.patches.sampler import ImagePyramids, cut_patches
from patchprint.patches.source import PatchSource
from patchprint.patches.tracks import Tracks, TrackStore
from patchprint.types import Keypoints
from support.synthetic_tracks import plane_tracks, texture


@pytest.fixture
def scene():
    return plane_tracks()


def all_views(store, count=10):
    points = torch.arange(count)
    return points, torch.arange(4).expand(count, 4)


def test_sample_equals_the_inference_sampler(scene):
    images, tracks = scene
    store = TrackStore.from_images(images, tracks, patch_scale=10.0)
    assert isinstance(store, PatchSource)
    points, views = all_views(store)
    patches = store.sample(points, views, 32)
    assert patches.shape == (10, 4, 1, 32, 32)
    pyramids = ImagePyramids.build(images)
    rows = store.observation(points, views).reshape(-1).numpy()
    keypoints = Keypoints(tracks.xy[rows], tracks.scale[rows], tracks.angle[rows])
    expected = cut_patches(pyramids, torch.from_numpy(tracks.image[rows]).long(), keypoints, 10.0, 32)
    torch.testing.assert_close(patches.flatten(0, 1), expected, atol=1e-5, rtol=0)


def test_views_of_a_point_show_the_same_pixels(scene):
    store = TrackStore.from_images(*scene)
    patches = store.sample(*all_views(store, 60), 32)
    assert float((patches - patches[:, :1]).abs().mean()) < 1e-3
    assert float((patches[1:] - patches[:-1]).abs().mean()) > 0.05


def test_warp_reads_elsewhere_in_the_photo(scene):
    store = TrackStore.from_images(*scene)
    points, views = all_views(store)
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
    points, views = all_views(store)
    assert torch.equal(again.sample(points, views, 32), store.sample(points, views, 32))
    for part in ("train", "val"):
        assert torch.equal(again.split(part).num_views, store.split(part).num_views)
    with pytest.raises(ValueError, match="exists already"):
        store.save(tmp_path / "s")


def test_streamed_photos_give_the_same_patches(scene, tmp_path):
    store = TrackStore.from_images(*scene)
    store.save(tmp_path / "s")
    streamed = TrackStore.open(tmp_path / "s", max_resident_gb=1e-5)
    points, views = all_views(store)
    torch.testing.assert_close(streamed.sample(points, views, 32), store.sample(points, views, 32))


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


def test_max_mb_encodes_again_or_refuses(scene, tmp_path):
    images, tracks = scene
    names = track_files.Names.numbered(4, 1)
    whole = sum(len(encode_png(image)) for image in images)
    limit = whole / 2**20 / 3
    track_files.write(tmp_path / "s", map(encode_png, images), tracks, names, max_mb=limit)
    assert (tmp_path / "s" / "images.bin").stat().st_size <= limit * 2**20
    assert not (tmp_path / "s" / "original.bin").exists()
    assert abs(float(open_source(tmp_path / "s").sample(*all_views(None), 32).mean()) - 0.5) < 0.2
    with pytest.raises(ValueError, match="do not fit into --max-mb"):
        track_files.write(tmp_path / "t", map(encode_png, images), tracks, names, max_mb=0.001)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": 9}, "a track names photo 9, but there are only 4 photos"),
        ({"xy": np.nan}, "not a number, in photo"),
        ({"xy": 5000.0}, "the photo was resized or exchanged"),
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
        track_files.write(tmp_path / "s", map(encode_png, images), bad, track_files.Names.numbered(4, 1))
    assert list(tmp_path.iterdir()) == []


def test_corrupt_jpeg_names_the_photo(scene, tmp_path):
    images, tracks = scene
    encoded = [encode_jpeg(image, 90) for image in images]
    encoded[2] = encoded[2][:40]
    with pytest.raises(ValueError, match=r"000002.png is not a picture"):
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


def test_sampling_compiles_into_one_graph(scene):
    store = TrackStore.from_images(*scene)
    strong = create("strong")

    def step(key, points, views):
        return strong.light(key, store.sample(points, views, 32, strong.warp(key, 8, 2)))

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


def test_a_hundred_thousand_photos_stay_on_disk(tmp_path):
    """A sparse file stands in for 200 GB of photos: only those that are sampled are read and decoded."""
    count, slot, real = 100_000, 2_000_000, (0, 54_321, 99_999)
    folder = tmp_path / "huge"
    folder.mkdir()
    image = texture(768, 1024)
    data = encode_png(image)
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
    for name, values in arrays.items():
        manifest.save(folder, name, values)
    (folder / "image_names.txt").write_text("".join(f"{i}.png\n" for i in range(count)))
    (folder / "scene_names.txt").write_text("huge\n")
    listing = {f.name: {"bytes": f.stat().st_size, "sha256": ""} for f in folder.iterdir()}
    facts = {"kind": "tracks", "version": manifest.VERSION, "patch_scale": 12.0, "files": listing}
    manifest.files.write_json(folder / "manifest.json", facts)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    store = TrackStore.open(folder, max_resident_gb=0.01)
    got = store.sample(torch.tensor(real), torch.tensor([0, 1]).expand(3, 2), 32)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    expected = TrackStore.from_images([image] * 2, plane_tracks(count=2)[1]).images
    frame = torch.eye(2)[None] * 18
    wanted = expected.cut(torch.zeros(1, dtype=torch.int64), torch.full((1, 2), 300.0), frame, 32)
    torch.testing.assert_close(got.reshape(6, 1, 32, 32), wanted.expand(6, 1, 32, 32))
    assert (after - before) / 1024 < 300, "MiB; the pyramids of all photos would take 100 GiB"
