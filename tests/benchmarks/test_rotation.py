"""Turned images: the truth is exact, and orientation is what carries descriptors through a rotation."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint.benchmarks.rotation import turned
from patchprint.ops.geometry import project
from support.benchmark_data import scores_of
from support.known_images import texture


def blob(height: int, width: int, x: float, y: float) -> np.ndarray:
    rows, columns = np.mgrid[:height, :width]
    return (200 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 72)).astype(np.uint8)


def center_of(image: np.ndarray) -> np.ndarray:
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    weight = image.astype(float) ** 2
    return np.array([(weight * columns).sum(), (weight * rows).sum()]) / weight.sum()


@pytest.mark.parametrize("degrees", [0, 30, 90, 135])
def test_blob_turns_with_the_homography(degrees: float) -> None:
    image = blob(121, 121, 75, 50)
    warped, homography = turned(image, degrees)
    flat = np.where(warped > 100, warped, 0)
    np.testing.assert_allclose(center_of(flat), project(homography, np.array([[75.0, 50.0]]))[0], atol=0.2)


def test_curves(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "p.png"), texture(220, 240))
    scores = scores_of("rotation", "rootsift", tmp_path / "p.png", step=60, keypoints=300)
    assert scores["degrees"] == [0.0, 60.0, 120.0, 180.0]
    assert scores["oriented"][0] == pytest.approx(1.0, abs=1e-3)
    assert scores["upright"][0] == pytest.approx(1.0, abs=1e-3)
    assert min(scores["oriented"]) > 0.5 > 0.2 > max(scores["upright"][1:])


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not an image"):
        scores_of("rotation", "sift", tmp_path)
    with pytest.raises(ValueError, match="--step 0"):
        scores_of("rotation", "sift", tmp_path, step=0)
    cv2.imwrite(str(tmp_path / "s.png"), texture(40, 90))
    with pytest.raises(ValueError, match="at least 64 x 64"):
        scores_of("rotation", "sift", tmp_path / "s.png")
