"""Large images are searched in tiles."""

import numpy as np
import pytest
import torch

from patchprint import detectors
from patchprint.detectors import _tiles, detect
from support.known_images import texture
from support.peak_memory import memory_grows_by_less_than


def test_tiles_find_what_the_whole_image_has(monkeypatch: pytest.MonkeyPatch) -> None:
    image = texture(400, 520)
    whole = detect(image, "dog", max_keypoints=10_000, spread=False)
    monkeypatch.setattr(_tiles, "WHOLE", 100_000)
    monkeypatch.setattr(_tiles, "TILE", 128)
    monkeypatch.setattr(_tiles, "MARGIN", 64)
    monkeypatch.setattr(_tiles, "LARGEST_IN_TILE", 6.0)
    monkeypatch.setattr(_tiles, "PIECE", 5_000)  # the shrunk copy is tiled too
    tiled = detect(image, "dog", max_keypoints=10_000, spread=False)
    distance, nearest = torch.cdist(whole.xy, tiled.xy, compute_mode="donot_use_mm_for_euclid_dist").min(1)
    small = whole.scale < 5.5
    assert (distance[small] < 0.05).float().mean() > 0.97
    assert (distance < 1.0).float().mean() > 0.93
    assert abs(len(tiled) - len(whole)) < 0.08 * len(whole)
    assert torch.allclose(
        tiled.scale[nearest][small & (distance < 0.01)], whole.scale[small & (distance < 0.01)], rtol=0.05
    )


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("upright", [True, False])
def test_what_tiles_forget_would_not_have_been_chosen(
    spread: bool, upright: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = texture(300, 420)
    monkeypatch.setattr(_tiles, "WHOLE", 50_000)
    monkeypatch.setattr(_tiles, "TILE", 128)
    chosen = detect(image, "dog", max_keypoints=200, spread=spread, upright=upright)
    monkeypatch.setattr(detectors, "candidates", lambda found, *_: found)
    from_all = detect(image, "dog", max_keypoints=200, spread=spread, upright=upright)
    assert len(chosen) == 200
    assert torch.equal(chosen.xy, from_all.xy) and torch.equal(chosen.angle, from_all.angle)


@pytest.mark.slow
def test_a_large_image_takes_the_memory_of_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tiles, "WHOLE", 3_000_000)
    image = np.full((2000, 2000), 128, np.uint8)  # SIFT would take 960 MB for the whole
    image[1000:1400, 1000:1400] = texture(400, 400)
    with memory_grows_by_less_than(600):
        assert len(detect(image, "dog", max_keypoints=100)) == 100
