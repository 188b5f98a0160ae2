"""Images inside of a page."""

import base64
from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint.report import embedded_images
from patchprint.report.embedded_images import EmbeddedImage


def pixels_of(image: EmbeddedImage) -> np.ndarray:
    data = np.frombuffer(base64.b64decode(image.source.partition(",")[2]), np.uint8)
    found = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    assert found is not None
    return found


def test_small_files_are_taken_as_they_are(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.full((4, 6, 3), (1, 2, 3), np.uint8))
    image = EmbeddedImage.from_file(tmp_path / "a.png", "a")
    assert image.size == (6, 4) and image.source.startswith("data:image/png")
    assert pixels_of(image)[0, 0].tolist() == [1, 2, 3]


def test_large_files_are_made_smaller(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (900, 2000, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "a.png"), noise)
    image = EmbeddedImage.from_file(tmp_path / "a.png", "a")
    assert image.size == (embedded_images.LONGEST_SIDE, 720) and image.source.startswith("data:image/jpeg")
    assert len(image.source) < (tmp_path / "a.png").stat().st_size


def test_pixels_keep_their_colors() -> None:
    image = EmbeddedImage.from_pixels(np.full((2, 2, 3), (255, 0, 0), np.uint8), "red", larger=3)
    assert pixels_of(image)[0, 0].tolist() == [0, 0, 255] and image.size == (6, 6) and image.sharp
    assert pixels_of(EmbeddedImage.from_pixels(np.full((2, 2), 7, np.uint8), "gray")).tolist() == [[7, 7], [7, 7]]


def test_files_that_are_no_pictures_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no image")
    with pytest.raises(ValueError, match=r"a\.png"):
        EmbeddedImage.from_file(tmp_path / "a.png", "a")
    with pytest.raises(ValueError, match=r"\.png, \.jpg"):
        EmbeddedImage.from_file(tmp_path / "a.tif", "a")
