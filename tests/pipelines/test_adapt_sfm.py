"""Mapping as a judge: which photos are mapped, which of their pairs are matched, and what is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pycolmap")

from patchprint.data.tracks import Tracks, TrackStore
from patchprint.detectors import detect
from patchprint.features import describe_keypoints, load
from patchprint.features.model import Model
from patchprint.interop.colmap_models import pycolmap
from patchprint.pipelines import adapt_sfm
from patchprint.pipelines.adapt_sfm import COUNTS, PhotosToMap
from patchprint.types import Features
from support.fake_models import ConstantModel
from support.scenes import Room

ROOM = Room(views=4, height=300, width=400, focal=360.0)


@pytest.fixture(scope="module")
def reconstruction(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sparse model that knows the cameras of the photos of a store, and no points."""
    folder = tmp_path_factory.mktemp("sparse")
    model = pycolmap.Reconstruction()
    middle = [ROOM.width / 2, ROOM.height / 2]
    model.add_camera_with_trivial_rig(
        pycolmap.Camera(
            camera_id=1, model="SIMPLE_PINHOLE", width=ROOM.width, height=ROOM.height, params=[ROOM.focal, *middle]
        )
    )
    for number, (_, pose) in enumerate(ROOM.photos()):
        image = pycolmap.Image(name=f"{number:06d}.png", camera_id=1, image_id=number + 1)
        model.add_image_with_trivial_frame(
            image, pycolmap.Rigid3d(pycolmap.Rotation3d(pose.rotation), -pose.rotation @ pose.center)
        )
    model.write(folder)
    return folder


def store_of(images: list[np.ndarray], shown_by: list[list[int]]) -> TrackStore:
    """Photos and points, of which each is shown by the photos that are listed for it."""
    image = np.concatenate(shown_by)
    point = np.repeat(np.arange(len(shown_by)), [len(photos) for photos in shown_by])
    xy = np.random.default_rng(0).uniform(10, 40, (len(image), 2))
    ones = np.ones(len(image))
    return TrackStore.from_images(images, Tracks.from_observations(image, xy, ones, 0 * ones, point))


@pytest.fixture(scope="module")
def room() -> TrackStore:
    return store_of([photo for photo, _ in ROOM.photos()], [[0, 1, 2, 3]] * 4)


def described(store: TrackStore, model: Model) -> dict[int, Features]:
    photos = (store.images.pixels(number) for number in range(len(store.images)))
    return {
        number: describe_keypoints(photo, detect(photo, max_keypoints=800), model=model)
        for number, photo in enumerate(photos)
    }


def test_photos_are_mapped_and_each_counts_its_observations(room: TrackStore, reconstruction: Path) -> None:
    to_map = PhotosToMap(room, [1, 2], reconstruction, seed=0)
    counts, by_photo = to_map.map(described(room, load("rootsift")))
    assert set(counts) == set(COUNTS)
    assert counts["registered"] == 4
    assert counts["observations"] == by_photo.sum() >= 2 * counts["points"] > 100


@pytest.mark.parametrize("mixed", [False, True])
def test_poor_descriptors_map_nothing(room: TrackStore, reconstruction: Path, mixed: bool) -> None:
    """One without matches, and one whose matches agree with nothing but by chance."""
    features = described(room, load("rootsift") if mixed else ConstantModel())
    for item in features.values():
        item.descriptors[:] = item.descriptors[np.random.default_rng(0).permutation(len(item))]
    counts, by_photo = PhotosToMap(room, [1], reconstruction, seed=0).map(features)
    assert counts["registered"] == 0 and counts["observations"] == by_photo.sum() < 20


def test_photos_that_training_saw_are_not_matched_with_each_other(room: TrackStore, reconstruction: Path) -> None:
    assert PhotosToMap(room, [1], reconstruction, seed=0).pairs == [(0, 1), (1, 2), (1, 3)]


def test_chosen_photos_hang_together(reconstruction: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups around held-out photos 0 and 3, the second of which shares more; 6 shares with a photo of training alone."""
    images = [np.full((50, 50), 100, np.uint8)] * 7
    store = store_of(images, [[0, 1], [0, 2], [3, 4], [3, 4], [3, 5], [5, 6], [5, 6], [5, 6]])
    assert PhotosToMap(store, [0, 3], reconstruction, seed=0).numbers == [3, 4, 5]
    monkeypatch.setattr(adapt_sfm, "MOST_PHOTOS", 2)
    assert PhotosToMap(store, [0, 3], reconstruction, seed=0).numbers == [3, 4]
