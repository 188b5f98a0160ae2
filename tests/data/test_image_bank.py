"""Images in memory, or read and decoded when a patch is cut from them."""

import numpy as np
import torch

from patchprint.common.image_codec import encode_png
from patchprint.data import manifest
from patchprint.data.tracks import TrackStore
from support.known_images import texture
from support.peak_memory import memory_grows_by_less_than
from support.synthetic_tracks import all_views, plane_tracks


def test_streamed_photos_give_the_same_patches(scene, tmp_path):
    store = TrackStore.from_images(*scene)
    store.save(tmp_path / "s")
    streamed = TrackStore.open(tmp_path / "s", max_resident_gb=1e-5)
    points, views = all_views()
    torch.testing.assert_close(streamed.sample(points, views, 32), store.sample(points, views, 32))


def test_a_hundred_thousand_photos_stay_on_disk(tmp_path):
    """A sparse file stands in for 200 GB of images: only those that are sampled are read and decoded."""
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
    with memory_grows_by_less_than(mib=300):  # the pyramids of all images would take 100 GiB
        store = TrackStore.open(folder, max_resident_gb=0.01)
        got = store.sample(torch.tensor(real), torch.tensor([0, 1]).expand(3, 2), 32)
    expected = TrackStore.from_images([image] * 2, plane_tracks(count=2)[1]).images
    frame = torch.eye(2)[None] * 18
    wanted = expected.cut(torch.zeros(1, dtype=torch.int64), torch.full((1, 2), 300.0), frame, 32)
    torch.testing.assert_close(got.reshape(6, 1, 32, 32), wanted.expand(6, 1, 32, 32))
