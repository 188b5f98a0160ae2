"""The settings of two images: what is refused before the work, and that they do what the functions do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import patchprint
from patchprint.common.errors import UserError
from patchprint.features.extract import DescribeSettings
from patchprint.matching.matchers import MatchSettings, match_and_verify
from support.known_images import texture, turned


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (MatchSettings, {"matcher": "mutal"}, "there is no matcher 'mutal'; did you mean mutual"),
        (MatchSettings, {"ratio": 1.5}, "ratio must lie in"),
        (MatchSettings, {"matcher": "mutual", "ratio": 0.9}, "a ratio belongs to"),
        (MatchSettings, {"geometry": "affine"}, "known are auto, homography"),
        (DescribeSettings, {"detector": "dgo"}, "did you mean dog"),
        (DescribeSettings, {"max_keypoints": 0}, "max_keypoints must be at least 1"),
        (DescribeSettings, {"max_size": 3}, "max_size must be at least 32"),
    ],
)
def test_wrong_settings_are_refused(kind: Any, settings: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        kind(**settings)


def test_the_same_as_by_hand() -> None:
    image = texture(200, 220)
    a, b = (patchprint.extract(each, "rootsift", max_keypoints=300) for each in (image, turned(image, 12)[0]))
    expected = patchprint.verify(a, b, patchprint.match(a, b, ratio=0.9))
    found = match_and_verify(a, b, MatchSettings(ratio=0.9))
    assert len(found) > 20 and torch.equal(found.indices, expected.indices)
    assert found.verdict == expected.verdict
    assert match_and_verify(a, b, MatchSettings(geometry="none")).inliers is None
