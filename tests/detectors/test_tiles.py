"""Large pictures are searched in tiles."""

from __future__ import annotations

import pytest
import torch

from patchprint.detectors import _tiles, detect
from support.known_images import texture


def test_tiles_find_what_the_whole_picture_has(monkeypatch: pytest.MonkeyPatch) -> None:
    image = texture(400, 520)
    whole = detect(image, "dog", 10_000, spread=False)
    monkeypatch.setattr(_tiles, "WHOLE", 100_000)
    monkeypatch.setattr(_tiles, "TILE", 128)
    monkeypatch.setattr(_tiles, "MARGIN", 64)
    monkeypatch.setattr(_tiles, "LARGEST_IN_TILE", 6.0)
    tiled = detect(image, "dog", 10_000, spread=False)
    distance, nearest = torch.cdist(whole.xy, tiled.xy, compute_mode="donot_use_mm_for_euclid_dist").min(1)
    small = whole.scale < 5.5
    assert (distance[small] < 0.05).float().mean() > 0.97
    assert (distance < 1.0).float().mean() > 0.93
    assert abs(len(tiled) - len(whole)) < 0.08 * len(whole)
    assert torch.allclose(
        tiled.scale[nearest][small & (distance < 0.01)], whole.scale[small & (distance < 0.01)], rtol=0.05
    )
