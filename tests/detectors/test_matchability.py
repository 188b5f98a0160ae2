"""The learned score of keypoints: it predicts repeatability on images that it was not trained on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skimage import color, data

from patchprint.common.types import Keypoints
from patchprint.data.builders.homographies import find_again, render_views
from patchprint.detectors import DETECTORS, detect
from patchprint.detectors._matchability import with_matchability
from patchprint.detectors.dog import find_dog
from patchprint.ops.geometry import transport


def candidates(image: np.ndarray) -> Keypoints:
    """What `dog-learned` chooses from, by response."""
    return DETECTORS["dog-learned"].find(image, None, None, score="response")  # type: ignore[call-arg]


def test_keypoints_with_a_high_score_are_found_again_more_often() -> None:
    image = np.round(255 * color.rgb2gray(data.astronaut())).astype(np.uint8)
    original, *copies = render_views(image, 2, seed=1)
    by_response = candidates(original.image)
    scored = with_matchability(original.image, by_response)
    found = [(copy.homography, candidates(copy.image)) for copy in copies]

    def share(keypoints: Keypoints) -> float:
        again = [find_again(transport(keypoints, homography), there) >= 0 for homography, there in found]
        return float(torch.stack(again).float().mean())

    assert scored.score is not None
    order = scored.score.argsort(descending=True)
    assert share(scored[order[:400]]) > share(by_response[:400])
    assert share(scored[order[:400]]) > 1.5 * share(scored[order[-400:]])


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


def test_it_chooses_among_more_than_are_wanted() -> None:
    image = data.camera()
    strongest = {tuple(row) for row in candidates(image)[:200].xy.tolist()}
    chosen = {tuple(row) for row in detect(image, "dog-learned", max_keypoints=200, spread=False).xy.tolist()}
    assert len(chosen - strongest) > 20
