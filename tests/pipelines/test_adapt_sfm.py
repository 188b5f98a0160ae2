"""Mapping as a judge: which photos are mapped, which of their pairs are matched, and what is counted."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pycolmap")

from patchprint.detectors import detect
from patchprint.errors import MissingPackageError
from patchprint.features import describe, load
from patchprint.features.model import Model
from patchprint.patches.tracks import Tracks, TrackStore
from patchprint.pipelines import adapt_sfm
from patchprint.pipelines.adapt_sfm import COUNTS, PhotosToMap
from patchprint.types import Features
from support.fake_models import ConstantModel
from support.scenes import Room

ROOM = Room(views=4, height=300, width=400, focal=360.0)


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
    return {number: describe(photo, detect(photo, max_keypoints=800), model) for number, photo in enumerate(photos)}


def test_photos_are_mapped_and_each_counts_its_observations(room: TrackStore) -> None:
    counts, by_photo = PhotosToMap(room, [0, 1, 2, 3], [1, 2], seed=0).map(described(room, load("rootsift")))
    assert set(counts) == set(COUNTS)
    assert counts["registered"] == (by_photo > 0).sum() >= 3
    assert counts["observations"] == by_photo.sum() >= 2 * counts["points"] > 100


def test_a_descriptor_without_matches_maps_nothing(room: TrackStore) -> None:
    counts, by_photo = PhotosToMap(room, [0, 1, 2, 3], [1], seed=0).map(described(room, ConstantModel()))
    assert counts == dict.fromkeys(COUNTS, 0)
    assert by_photo.tolist() == [0] * 4


def test_matches_that_agree_with_nothing_map_nothing(room: TrackStore) -> None:
    features = described(room, load("rootsift"))
    noise = np.random.default_rng(0)
    for item in features.values():
        item.descriptors[:] = item.descriptors[noise.permutation(len(item))]
    counts, by_photo = PhotosToMap(room, [0, 1, 2, 3], [1], seed=0).map(features)
    assert counts["registered"] == 0 and not by_photo.any()


def test_a_missing_package_is_no_poor_descriptor(room: TrackStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MissingPackageError("pip install pycolmap")

    monkeypatch.setattr(adapt_sfm, "reconstruct", refuse)
    with pytest.raises(MissingPackageError):
        PhotosToMap(room, [0, 1, 2, 3], [1], seed=0).map(described(room, load("rootsift")))


def test_photos_that_training_saw_are_not_matched_with_each_other(room: TrackStore) -> None:
    assert PhotosToMap(room, [0, 1, 2, 3], [1], seed=0).pairs == [(0, 1), (1, 2), (1, 3)]


def test_chosen_photos_hang_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups around held-out photos 0 and 3, the second of which shares more; 6 is tied to it by a photo of training."""
    images = [np.full((50, 50), 100, np.uint8)] * 7
    store = store_of(images, [[0, 1], [0, 2], [3, 4], [3, 4], [3, 5], [5, 6], [5, 6], [5, 6]])
    assert PhotosToMap(store, range(7), [0, 3], seed=0).numbers == [3, 4, 5]
    monkeypatch.setattr(adapt_sfm, "MOST_PHOTOS", 2)
    assert PhotosToMap(store, range(7), [0, 3], seed=0).numbers == [3, 4]
