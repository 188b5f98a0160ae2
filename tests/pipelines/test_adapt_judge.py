"""Judging by matching: the truth of pairs of photos, the numbers of models, and the verdict."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint.common.errors import MissingPackageError, UserError
from patchprint.data.builders import bundled_images, homographies
from patchprint.data.tracks import TrackStore
from patchprint.features import load
from patchprint.ops import geometry
from patchprint.pipelines import adapt_judge
from patchprint.pipelines.adapt_judge import MEASURES, VERDICTS, HeldOutPhotos, Measured, Scores, measured_in, verdict
from patchprint.pipelines.adapt_sfm import COUNTS
from patchprint.types import Features
from support.fake_models import ConstantModel


@pytest.fixture(scope="module")
def store() -> TrackStore:
    images, tracks = homographies.make_tracks([bundled_images.image("camera")], num_views=5, seed=0, max_keypoints=600)
    return TrackStore.from_images(images, tracks)


@pytest.fixture(scope="module")
def judge(store: TrackStore) -> HeldOutPhotos:
    return HeldOutPhotos(store, np.array([1, 4]), None, seed=0)


def test_each_pair_has_a_held_out_photo_and_none_comes_twice(judge: HeldOutPhotos) -> None:
    pairs = [pair.images for pair in judge.pairs]
    assert all({1, 4} & set(pair) for pair in pairs)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs) >= adapt_judge.FEWEST_SAMPLES


def test_known_places_are_those_of_the_warp(judge: HeldOutPhotos) -> None:
    """The photos are warped copies of one, so that one homography takes every keypoint to its true place."""
    pair = judge.pairs[0]
    known = torch.isfinite(pair.truth[:, 0])
    assert adapt_judge.FEWEST_KNOWN <= known.sum() < len(known)
    here, there = pair.keypoints[0].xy[known].numpy(), pair.truth[known].numpy()
    homography, _ = cv2.findHomography(here, there, cv2.RANSAC, 3.0)
    moved = geometry.project(homography, here)
    assert np.median(np.linalg.norm(moved - there, axis=1)) < 2


def test_better_models_have_better_numbers(judge: HeldOutPhotos) -> None:
    measured = [judge.measure(model) for model in (ConstantModel(), load("pixels"), load("hardnet.small"))]
    constant, pixels, learned = (each.scores for each in measured)
    assert constant["ap"] < pixels["ap"] < learned["ap"] <= 1
    assert constant["inliers"] == 0 < learned["inliers"]
    assert constant["confused"] > pixels["confused"] > learned["confused"]
    assert verdict(measured[1], measured[2]) == "gained"
    assert verdict(measured[2], measured[1]) == "lost"
    assert verdict(measured[1], measured[1]) == "no difference"


class MadeMap:
    """Stands for ``adapt_sfm.PhotosToMap``, which has tests of its own."""

    numbers, pairs = (0, 1, 2, 4), ((0, 1), (1, 2), (1, 4))

    def __init__(self, registered: float) -> None:
        self.registered = registered

    def map(self, described: dict[int, Features]) -> tuple[Scores, np.ndarray]:
        assert set(self.numbers) <= set(described)
        return dict.fromkeys(COUNTS, self.registered), np.full(4, self.registered)


@pytest.mark.parametrize("registered", [0.0, 3.0])
def test_3d_models_are_compared_where_there_are_any(
    judge: HeldOutPhotos, monkeypatch: pytest.MonkeyPatch, registered: float
) -> None:
    monkeypatch.setattr(judge, "_to_map", MadeMap(registered))
    measured, mapped = judge.compare({"start": ConstantModel()})
    start = measured["start"]
    shown = list(measured_in({"start": start.scores}))
    if registered:
        assert mapped == {"photos": 4, "pairs": 3}
        assert shown == list(MEASURES) and "observations" in start.samples
    else:
        assert "no points" in mapped["left_out"]
        assert shown == ["ap", "inliers", "confused"] and "observations" not in start.samples


def test_without_a_reconstruction_or_pycolmap_the_rest_is_measured(
    judge: HeldOutPhotos, store: TrackStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise MissingPackageError("this needs the package 'pycolmap'")

    monkeypatch.setattr(adapt_judge, "PhotosToMap", refuse)
    without_package = HeldOutPhotos(store, np.array([1, 4]), Path("sparse"), seed=0)
    for made, reason in ((judge, "the 3D model that the points come from is gone"), (without_package, "'pycolmap'")):
        measured, mapped = made.compare({"start": ConstantModel()})
        assert reason in mapped["left_out"]
        assert set(measured["start"].samples) == {"ap", "inliers"}


@pytest.mark.parametrize(
    ("ap", "inliers", "expected"),
    [
        ([0.02, 0.03, 0.02, 0.01], [0, 1, -1, 0], "gained"),
        ([0.02, 0.03, 0.02, 0.01], [-9, -8, -9, -10], "mixed"),
        ([-0.02, -0.03, -0.02, -0.01], [0, 1, -1, 0], "lost"),
        ([0.05, -0.04, 0.01, 0.0], [5, -5, 9, -8], "no difference"),
        ([0.5, 0.5], [90, 90], "no difference"),  # two pairs tell nothing
    ],
)
def test_the_verdict_looks_beyond_chance(ap: list[float], inliers: list[float], expected: str) -> None:
    before = {"ap": np.full(len(ap), 0.5), "inliers": np.full(len(ap), 100.0)}
    after = {"ap": before["ap"] + ap, "inliers": before["inliers"] + inliers}
    assert verdict(Measured({}, before), Measured({}, after)) == expected
    assert expected in VERDICTS


@pytest.mark.parametrize(
    ("observations", "expected"),
    [
        ([505, 506, 504, 505], "no difference"),  # one per cent more in each
        ([530, 528, 531, 529], "gained"),
        ([470, 472, 469, 471], "lost"),
        ([900, 300, 700, 200], "no difference"),  # far apart
    ],
)
def test_observations_count_where_they_change_by_more_than_a_second_mapping_does(
    observations: list[float], expected: str
) -> None:
    before, after = ({"observations": np.array(values, float)} for values in ([500] * 4, observations))
    assert verdict(Measured({}, before), Measured({}, after)) == expected


def test_photos_that_share_too_little_are_refused(store: TrackStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt_judge, "FEWEST_KNOWN", 10_000)
    with pytest.raises(UserError, match="overlap more"):
        HeldOutPhotos(store, np.array([1]), None, seed=0)
