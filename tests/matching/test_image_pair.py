"""The settings of two images: what is refused before the work, and that the parts give what the whole gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import patchprint
from patchprint.common.errors import UserError
from patchprint.matching.image_pair import MatchSettings, answer
from support.known_images import texture, turned

IMAGE = texture(200, 220)
OTHER, _ = turned(IMAGE, 12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "mutal"}, "there is no matcher 'mutal'; did you mean mutual"),
        ({"ratio": 1.5}, "ratio must lie in"),
        ({"mode": "mutual", "ratio": 0.9}, "a ratio belongs to"),
        ({"detector": "dgo"}, "did you mean dog"),
        ({"max_keypoints": 0}, "max_keypoints must be at least 1"),
        ({"max_size": 3}, "max_size must be at least 32"),
        ({"geometry": "affine"}, "known are auto, homography"),
    ],
)
def test_wrong_settings_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        MatchSettings(**settings).check()


def test_the_same_as_by_hand() -> None:
    settings = MatchSettings("rootsift", max_keypoints=300, ratio=0.9)
    settings.check()
    model = patchprint.load("rootsift")
    a, b = (settings.extract(image, model) for image in (IMAGE, OTHER))
    by_hand = [patchprint.extract(image, "rootsift", max_keypoints=300) for image in (IMAGE, OTHER)]
    expected = patchprint.verify(*by_hand, patchprint.match(*by_hand, ratio=0.9))
    found = settings.match(a, b)
    assert len(found) > 20 and torch.equal(found.indices, expected.indices)
    assert found.verdict == expected.verdict
    said = answer(a, b, found, 0.5)
    assert (said["model"], said["matches"], said["seconds"]) == ("rootsift", len(found), 0.5)


def test_without_geometry_nothing_is_verified() -> None:
    settings = MatchSettings("sift", max_keypoints=100, geometry="none")
    a, b = (settings.extract(image, patchprint.load("sift")) for image in (IMAGE, OTHER))
    assert settings.match(a, b).inliers is None


def test_given_keypoints_are_described_as_found_ones_are() -> None:
    settings = MatchSettings("sift", max_keypoints=100)
    found = settings.extract(IMAGE, patchprint.load("rootsift"))
    again = settings.extract(IMAGE, patchprint.load("sift"), found.keypoints)
    alone = settings.extract(IMAGE, patchprint.load("sift"))
    assert np.array_equal(again.keypoints.xy, alone.keypoints.xy)
    assert torch.equal(again.descriptors, alone.descriptors)


def test_another_model_has_its_own_ratio() -> None:
    assert MatchSettings("hardnet", ratio=0.7, max_keypoints=9).by_default("sift") == MatchSettings(
        "sift", max_keypoints=9
    )
