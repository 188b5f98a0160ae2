"""What is carried to a GPU machine to train matchers: the bank there is the one that images here would give."""

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint.data import TrackStore
from patchprint.data.builders.homographies import make_tracks
from patchprint.data.track_files import read
from patchprint.features.model import load
from patchprint.matching import feature_bank
from patchprint.matching.feature_bank import Camera, open_bank
from perf.release import train_matchers
from support.known_images import texture


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setenv("PATCHPRINT_CACHE", str(tmp_path / "cache"))
    for seed, name in enumerate(("here", "there")):
        images, tracks = make_tracks(
            [texture(180, 200, seed + k) for k in (0, 2)], num_views=1, seed=0, max_keypoints=99
        )
        xyz = np.random.default_rng(seed).normal(0, 1, (tracks.num_points, 3)).astype(np.float32)
        TrackStore.from_images(images, dataclasses.replace(tracks, xyz=xyz)).save(tmp_path / name)
    return {"train": tmp_path / "here", "test": tmp_path / "there"}


def test_what_is_packed_becomes_the_bank(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"images": 3, "side": 640, "copies": 1, "keypoints": 64, "mib": 5.0, "out": tmp_path / "carried"}
    train_matchers.pack(argparse.Namespace(train=[stores["train"]], test=[stores["test"]], **named))
    given = argparse.Namespace(carried=tmp_path / "carried", model="patchprint.tiny", device="cpu")
    built = train_matchers._unpack_stores(given.carried, tmp_path / "stores")
    assert {kind: [path.name for path in paths] for kind, paths in built.items()} == {
        "train": ["train-here"], "test": ["test-there"],
    }  # fmt: skip
    for part in range(2):
        train_matchers._describe_part(built, given, part, 2)
    monkeypatch.setattr(feature_bank, "_describe", None)  # all is there
    model = load("patchprint.tiny", engine="float32")
    for kind, paths in built.items():
        (scene,) = open_bank(paths, model, train_matchers._bank(given, kind))
        assert len(scene.images) == 3 and scene.xyz is not None
        stored = read(paths[0])
        for number, image in enumerate(scene.images):
            assert len(image.views) == 2 and image.camera is None, "points at random are seen by no camera"
            first = image.views[0]
            assert 30 < len(first.xy) <= 64 and first.descriptors.shape == (len(first.xy), model.info.dim)
            keypoints = feature_bank.Keypoints(first.xy, first.scale, first.angle)
            again = model.describe_keypoints(stored.image(number), keypoints)
            torch.testing.assert_close(first.descriptors.float(), again, atol=2e-3, rtol=0)
            assert np.allclose(first.homography, np.eye(3)) and not np.allclose(image.views[1].homography, np.eye(3))


def test_numbers_that_are_carried() -> None:
    camera = Camera(np.arange(9.0).reshape(3, 3) + 1, np.eye(3), np.array([1.0, 2, 3]), -0.1)
    found = train_matchers._camera(np.concatenate([*map(np.ravel, vars(camera).values())]))
    assert found is not None and all(
        np.array_equal(getattr(found, name), value) for name, value in vars(camera).items()
    )
    assert train_matchers._camera(np.full(22, np.nan)) is None
