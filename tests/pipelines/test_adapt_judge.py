"""Judging by matching: which pairs are matched, better models have more verified matches, and the verdict."""

import numpy as np
import pytest

from patchprint.data.builders import bundled_images, homographies
from patchprint.data.tracks import TrackStore
from patchprint.features import load
from patchprint.pipelines.adapt_judge import MIN_PAIRS, VERDICTS, HeldOutPairs, verdict
from support.fake_models import ConstantModel


@pytest.fixture(scope="module")
def store() -> TrackStore:
    images, tracks = homographies.make_tracks([bundled_images.image("camera")], num_views=5, seed=0, max_keypoints=600)
    return TrackStore.from_images(images, tracks)


def test_each_pair_has_a_held_out_image_and_none_comes_twice(store: TrackStore) -> None:
    pairs = HeldOutPairs(store, np.array([1, 4])).pairs
    assert all({1, 4} & set(pair) for pair in pairs)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs) >= MIN_PAIRS


def test_better_models_have_more_verified_matches(store: TrackStore) -> None:
    judge = HeldOutPairs(store, np.array([1, 4]))
    models = (ConstantModel(), load("pixels"), load("patchprint.tiny"))
    constant, pixels, learned = (judge.verified_matches(model) for model in models)
    assert constant.sum() == 0 and (constant <= pixels).all() and pixels.mean() < learned.mean()
    assert verdict(pixels, learned) == "gained"
    assert verdict(learned, pixels) == "lost"
    assert verdict(pixels, pixels) == "no difference"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ([5, 6, 5, 4], "gained"),
        ([-9, -8, -9, -10], "lost"),
        ([5, -5, 9, -8], "no difference"),
        ([90, 90], "no difference"),  # two pairs tell nothing
    ],
)
def test_the_verdict_looks_beyond_chance(change: list[float], expected: str) -> None:
    before = np.full(len(change), 100.0)
    assert verdict(before, before + change) == expected
    assert expected in VERDICTS
