"""Tracks and their images on disk: limits, damage, and nothing half-written."""

import dataclasses
import json

import numpy as np
import pytest

from patchprint.common.image_codec import encode_jpeg, encode_png
from patchprint.data import open_source, track_files
from patchprint.data.tracks import TrackStore
from support.synthetic_tracks import all_views


def test_max_mb_encodes_again_or_refuses(scene, tmp_path):
    images, tracks = scene
    names = track_files.Names.numbered(4, 1)
    whole = sum(len(encode_png(image)) for image in images)
    limit = whole / 2**20 / 3
    track_files.write(tmp_path / "s", map(encode_png, images), tracks, names, max_mb=limit)
    assert (tmp_path / "s" / "images.bin").stat().st_size <= limit * 2**20
    assert not (tmp_path / "s" / "original.bin").exists()
    plain = TrackStore.from_images(images, tracks).sample(*all_views(), 32)
    assert float((open_source(tmp_path / "s").sample(*all_views(), 32) - plain).abs().mean()) < 0.05
    with pytest.raises(ValueError, match="do not fit into --max-mb"):
        track_files.write(tmp_path / "t", map(encode_png, images), tracks, names, max_mb=0.001)
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
        track_files.write(tmp_path / "s", map(encode_png, images), bad, track_files.Names.numbered(4, 1))
    assert list(tmp_path.iterdir()) == []


def test_corrupt_jpeg_names_the_photo(scene, tmp_path):
    images, tracks = scene
    encoded = [encode_jpeg(image, 90) for image in images]
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
