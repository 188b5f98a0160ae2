"""The learned detector: corners where they are, the same ones when the image turns or darkens, weights of one's own."""

import math
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from skimage import data

from patchprint.common.errors import UserError
from patchprint.detectors import _learned_networks, detect, learned
from patchprint.detectors._learned_networks import WEIGHTS, build_pyramid, invariants, load_networks
from patchprint.detectors.learned import APART, find_peaks
from patchprint.metrics.correspondence import within_pixels
from patchprint.ops import filters
from patchprint.ops.geometry import wrap_angle
from support.known_images import correspondences, turned


def test_no_two_keypoints_share_a_place() -> None:
    found = detect(data.camera(), "learned", max_keypoints=1000)
    distance = torch.cdist(found.xy, found.xy) + 100 * torch.eye(len(found))
    assert len(found) == 1000
    assert distance.min() > APART - 0.5
    assert len(found.scale.unique()) > 4


def test_a_quarter_turn_changes_nothing() -> None:
    image = data.camera()
    a, b = (detect(pixels, "learned", max_keypoints=1000, spread=False) for pixels in (image, np.rot90(image).copy()))
    back = np.array([[0.0, 1, 0], [-1, 0, image.shape[1] - 1], [0, 0, 1]])  # of the turn to the left
    again = within_pixels(a, b, back, 1.0)
    assert again.one_to_one() > 0.97 * min(len(a), len(b))
    difference = wrap_angle(b.angle[again.columns] - a.angle[again.rows] + math.pi / 2).abs()
    assert (difference < math.radians(5)).float().mean() > 0.95
    assert (a.scale[again.rows] == b.scale[again.columns]).float().mean() > 0.99


@pytest.mark.parametrize("wavelength", [7.9, 12.6])
def test_differences_respond_alike_in_all_directions(wavelength: float) -> None:
    """As far from the center of rings, all pixels look the same to the score."""
    y, x = torch.meshgrid(torch.arange(-40.0, 41), torch.arange(-40.0, 41), indexing="ij")
    rings = 127 + 100 * torch.cos(2 * math.pi / wavelength * torch.hypot(x, y))
    found, base = invariants(rings[None])
    places = [(0, 25), (25, 0), (15, 20), (20, 15), (7, 24), (-15, 20), (-24, -7)]
    values = torch.stack([torch.cat([found, base[None]])[:, 0, 40 + down, 40 + right] for down, right in places])
    assert (values.amax(0) - values.amin(0)).max() < 0.05


@pytest.mark.parametrize("degrees", [20, -70])
def test_angles_turn_with_the_image(degrees: float) -> None:
    image = data.camera()
    rotated, matrix = turned(image, degrees)
    a, b = (detect(pixels, "learned", max_keypoints=600) for pixels in (image, rotated))
    i, j = correspondences(a, b, matrix)
    assert len(i) > 200
    difference = wrap_angle(b.angle[j] - a.angle[i] - math.radians(degrees)).abs()
    assert (difference < math.radians(15)).float().mean() > 0.8


def test_more_keypoints_are_found_again_in_other_light_than_by_dog() -> None:
    image = data.camera()
    darker = np.round(255 * (image / 255.0) ** 1.6 * np.linspace(0.4, 1, image.shape[1])).astype(np.uint8)
    darker = cv2.GaussianBlur(darker, (0, 0), 0.8)

    def share(detector: str) -> float:
        a, b = (detect(pixels, detector, max_keypoints=500, spread=False) for pixels in (image, darker))
        return within_pixels(a, b, np.eye(3), 3.0).one_to_one() / min(len(a), len(b))

    assert share("learned") > share("dog") + 0.1


def test_bands_of_a_large_image_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    pyramid, network = build_pyramid(torch.from_numpy(data.camera())[None]), load_networks().score
    whole = network.of_pyramid(pyramid)
    monkeypatch.setattr(_learned_networks, "_BAND", 50_000)
    for band, expected in zip(network.of_pyramid(pyramid), whole, strict=True):
        assert (band - expected).abs().max() < 1e-3


def test_without_opencv_the_keypoints_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where PyTorch computes the filters."""
    image = data.camera()[:301, :270]
    expected = detect(image, "learned", max_keypoints=600, spread=False)
    monkeypatch.setattr(filters, "_is_for_opencv", lambda images: False)
    found = detect(image, "learned", max_keypoints=600, spread=False)
    again = within_pixels(expected, found, np.eye(3), 0.01)
    assert len(again.rows) > 0.99 * len(expected)
    assert torch.equal(expected.scale[again.rows], found.scale[again.columns])
    assert wrap_angle(expected.angle[again.rows] - found.angle[again.columns]).abs().quantile(0.99) < 0.01


def test_images_of_one_size_are_looked_at_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where the second one is recorded."""
    monkeypatch.setattr(learned, "Recording", lambda look, example: look)
    networks, image = load_networks(), torch.from_numpy(data.camera()[:200, :301].copy())
    looks = learned._Looks(networks, image.numel())
    expected = learned._find(looks.at(image), networks, 300, None)
    for pixels in (image.flip(0), image):
        found = learned._find(looks.at(pixels), networks, 300, None)
    assert torch.equal(found.xy, expected.xy) and torch.equal(found.angle, expected.angle)


def test_a_batch_is_scored_like_its_images() -> None:
    images = torch.stack([torch.from_numpy(each[:200, :240].copy()) for each in (data.camera(), data.coins())])
    network = load_networks().score
    together = network.of_pyramid(build_pyramid(images))
    peaks = find_peaks(together)
    for number, image in enumerate(images):
        alone = network.of_pyramid(build_pyramid(image[None]))
        assert all(torch.allclose(a[number], b[0], atol=1e-4) for a, b in zip(together, alone, strict=True))
        assert torch.allclose(peaks[peaks.image == number].xy, find_peaks(alone).xy, atol=1e-3)


def test_images_without_corners() -> None:
    assert len(detect(np.full((64, 64), 7, np.uint8), "learned")) == 0
    assert len(detect(np.zeros((9, 200), np.uint8), "learned")) == 0


def test_weights_of_ones_own(tmp_path: Path) -> None:
    image = data.camera()[:200, :200]
    own = tmp_path / "own.safetensors"
    own.write_bytes(WEIGHTS.read_bytes())
    assert torch.equal(detect(image, str(own)).xy, detect(image, "learned").xy)
    with pytest.raises(UserError, match="missing"):
        detect(image, str(tmp_path / "missing.safetensors"))
    own.write_bytes(WEIGHTS.read_bytes()[:-100])
    other = tmp_path / "other.safetensors"
    other.write_bytes(own.read_bytes())
    with pytest.raises(UserError, match="other"):
        detect(image, str(other))
