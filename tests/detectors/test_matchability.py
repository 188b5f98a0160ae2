"""The learned score of keypoints: it says what it promises, of pictures that it never saw."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage import color, data

from patchprint.detectors import DETECTORS, detect
from patchprint.detectors._matchability import with_matchability
from patchprint.detectors.dog import find_dog
from patchprint.geometry import transport
from patchprint.patches.sources.homographies import find_again, render_views
from patchprint.types import Keypoints


def test_keypoints_with_a_high_score_are_found_again_more_often() -> None:
    picture = np.round(255 * color.rgb2gray(data.astronaut())).astype(np.uint8)
    original, *copies = render_views(picture, 2, seed=1)
    learned = with_matchability(original.image, find_dog(original.image, contrast=0.01, edge=20.0))
    by_response = find_dog(original.image, contrast=0.01, edge=20.0)

    def share(keypoints: Keypoints) -> float:
        again = [
            find_again(transport(keypoints, copy.homography), find_dog(copy.image, contrast=0.01, edge=20.0)) >= 0
            for copy in copies
        ]
        return float(torch.stack(again).float().mean())

    assert learned.score is not None
    best = learned[learned.score.argsort(descending=True)[:400]]
    assert share(best) > share(by_response[:400]) + 0.03
    assert share(best) > 1.5 * share(learned[learned.score.argsort()[:400]])


def test_only_scores_change() -> None:
    image = data.camera()
    found = find_dog(image)
    scored = with_matchability(image, found)
    assert scored.score is not None
    assert found.score is not None
    assert torch.equal(scored.xy, found.xy)
    assert torch.equal(scored.angle, found.angle)
    assert 0 <= scored.score.min() < scored.score.max() <= 1
    assert not torch.equal(scored.score.argsort(), found.score.argsort())
    alone = with_matchability(image, found[700:701])
    assert alone.score is not None
    assert float(alone.score[0]) == pytest.approx(float(scored.score[700]), abs=1e-5)


def test_flat_images_and_no_keypoints() -> None:
    flat = np.full((64, 64), 7, np.uint8)
    assert len(detect(flat, "dog-learned")) == 0
    place = Keypoints(torch.tensor([[30.0, 30.0]]), torch.tensor([2.0]), torch.zeros(1), torch.zeros(1))
    scored = with_matchability(flat, place)
    assert scored.score is not None
    assert scored.score.isfinite().all()


def test_its_candidates_hold_those_of_dog() -> None:
    settings = DETECTORS["dog-learned"].find.keywords  # type: ignore[attr-defined]
    usual = find_dog(data.camera())
    candidates = find_dog(data.camera(), **{**settings, "score": "response"})
    assert {tuple(row) for row in usual.xy.tolist()} < {tuple(row) for row in candidates.xy.tolist()}
