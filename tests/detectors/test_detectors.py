"""Every detector on images whose keypoints are known: position, scale, angle; and what limits a search."""

import math
from collections.abc import Callable

import cv2
import numpy as np
import pytest
import torch

from patchprint.detectors import DETECTORS, detect, harris
from patchprint.ops.geometry import wrap_angle
from support.known_images import blob, corner, correspondences, crossing, lopsided_blob, texture, turned

BLOB_DETECTORS = [name for name, detector in DETECTORS.items() if detector.finds == "blobs"]


CORNER_DETECTORS = [name for name, detector in DETECTORS.items() if detector.finds == "corners"]


@pytest.mark.parametrize("detector", BLOB_DETECTORS)
@pytest.mark.parametrize(("x", "y", "sigma"), [(100.0, 80.0, 4.0), (90.0, 70.0, 7.0)])
def test_a_blob_is_found_where_it_is(detector: str, x: float, y: float, sigma: float) -> None:
    found = detect(blob(x, y, sigma), detector)
    offset = found.xy - torch.tensor([x, y])
    nearest = offset.norm(dim=1).argmin()
    assert offset[nearest].abs().max() < 0.05
    assert 0.8 < float(found.scale[nearest]) / sigma < 1.2


@pytest.mark.parametrize("detector", CORNER_DETECTORS)
@pytest.mark.parametrize("make", [crossing, corner])
def test_a_corner_is_found_where_it_is(detector: str, make: Callable[[int, int], np.ndarray]) -> None:
    found = detect(make(101, 81), detector)
    distance = (found.xy - torch.tensor([100.5, 80.5])).abs().max(1).values
    level_pixel = found.scale / harris.SIGMA
    assert distance[level_pixel < 1.1].min() < 0.3
    assert len(found.scale[distance < 0.3 * level_pixel].unique()) >= 5  # and again in coarser levels


@pytest.mark.parametrize("detector", [*BLOB_DETECTORS, *CORNER_DETECTORS])
@pytest.mark.parametrize("degrees", [20, -70])
def test_angles_turn_with_the_image(detector: str, degrees: float) -> None:
    image = texture(180, 200)
    rotated, matrix = turned(image, degrees)
    a, b = detect(image, detector, max_keypoints=400), detect(rotated, detector, max_keypoints=400)
    i, j = correspondences(a, b, matrix)
    assert len(i) > 40
    difference = wrap_angle(b.angle[j] - a.angle[i] - math.radians(degrees)).abs()
    assert (difference < math.radians(12)).float().mean() > 0.6


@pytest.mark.parametrize("detector", [*BLOB_DETECTORS, *CORNER_DETECTORS])
def test_scales_grow_with_the_image(detector: str) -> None:
    image = cv2.GaussianBlur(texture(180, 200), (0, 0), 2)
    larger, matrix = turned(image, 0, zoom=1.5)
    a, b = detect(image, detector, max_keypoints=300), detect(larger, detector, max_keypoints=300)
    i, j = correspondences(a, b, matrix)
    if detector in CORNER_DETECTORS:  # searched at fixed levels, so only the area of the frame is tied to the level
        levels = torch.log(detect(image, detector, max_keypoints=300).scale / harris.SIGMA) / math.log(2**0.5)
        assert (levels - levels.round()).abs().max() < 0.1
    else:
        assert float((b.scale[j] / a.scale[i]).median()) == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize("detector", BLOB_DETECTORS)
def test_angle_points_to_the_brighter_side(detector: str) -> None:
    """All around: the gradients of a round blob nearly cancel, so that any detector is 20 degrees off in some directions."""
    errors = []
    for degrees in range(0, 360, 30):
        found = detect(lopsided_blob(degrees), detector)
        central = found[(found.xy - 79.5).norm(dim=1) < 6]
        assert len(central)
        errors.append(wrap_angle(central.angle - math.radians(degrees)).abs().min())
    assert torch.stack(errors).median() < math.radians(12)
    assert torch.stack(errors).max() < math.radians(30)


def test_mask_and_count() -> None:
    image = texture()
    mask = np.zeros_like(image)
    mask[:, 130:] = 1
    for name in DETECTORS:
        found = detect(image, name, max_keypoints=50, mask=mask)
        assert 0 < len(found) <= 50
        assert found.xy[:, 0].min() > 128
    with pytest.raises(ValueError, match="mask"):
        detect(image, "dog", max_keypoints=50, mask=mask[:10])
    with pytest.raises(ValueError, match="there is no detector 'superpoint'"):
        detect(image, "superpoint")


def test_spread_gives_every_part_its_share() -> None:
    image = np.full((300, 300), 100, np.uint8)
    image[:, :150] = texture(300, 150)
    image[:, 150:] = (texture(300, 150, seed=1).astype(int) - 128) // 5 + 128  # faint
    by_response = detect(image, "dog", max_keypoints=160, spread=False)
    spread = detect(image, "dog", max_keypoints=160, spread=True)
    assert len(by_response) == len(spread) == 160
    assert (spread.xy[:, 0] > 150).sum() > (by_response.xy[:, 0] > 150).sum() + 15
    assert (spread.score.diff() <= 0).all()
