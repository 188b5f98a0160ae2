"""Drawing of matches: images, a line for each match, its color by verification."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint.common.types import Features, Keypoints, Matches, ModelId
from patchprint.features import draw_matches
from patchprint.features.draw_matches import CAPTION, GAP, INLIER, OUTLIER, UNVERIFIED

BACKGROUND = (128, 128, 128)
GRAY = np.full((40, 60), 128, np.uint8)


def features_at(*xy: tuple[float, float]) -> Features:
    return Features(Keypoints(xy, 1.0), torch.zeros(len(xy), 4), (60, 40), None, ModelId("m"))


A, B = features_at((10, 10), (10, 30)), features_at((50, 10), (50, 30))
MATCHES = Matches(torch.tensor([[0, 0], [1, 1]]), torch.zeros(2))
VERIFIED = Matches(MATCHES.indices, MATCHES.distance, torch.tensor([True, False]))


def drawn(matches: Matches, path: Path, **options: object) -> np.ndarray:
    draw_matches.draw(A, B, matches, path, images=(GRAY, GRAY), **options)  # type: ignore[arg-type]
    return cv2.imread(str(path))[..., ::-1]


@pytest.mark.parametrize(
    ("matches", "options", "colors"),
    [
        (MATCHES, {}, [UNVERIFIED, UNVERIFIED]),
        (MATCHES, {"max_lines": 1}, [UNVERIFIED, BACKGROUND]),
        (VERIFIED, {}, [INLIER, BACKGROUND]),
        (VERIFIED, {"outliers": True}, [INLIER, OUTLIER]),
    ],
)
def test_color_of_lines(matches: Matches, options: dict, colors: list, tmp_path: Path) -> None:
    image = drawn(matches, tmp_path / "m.png", **options)
    assert image.shape == (40 + CAPTION, 120 + GAP, 3) and tuple(image[20, 50]) == BACKGROUND
    assert (image[20, 60 : 60 + GAP] == 255).all() and (image[40:] < 100).any(), "a gap, and a caption"
    known = np.array([BACKGROUND, INLIER, OUTLIER, UNVERIFIED])  # lines are blended with the background
    nearest = [np.abs(known - image[row, 50].astype(int)).sum(1).argmin() for row in (10, 30)]
    assert [tuple(known[index].tolist()) for index in nearest] == colors


def test_large_images_are_shrunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_matches, "MAX_SIDE", 30)
    image = drawn(MATCHES, tmp_path / "small.png")
    assert image.shape == (20 + CAPTION, 60 + GAP, 3)
    assert np.abs(image[5, 5].astype(int) - UNVERIFIED).sum() < np.abs(image[5, 5].astype(int) - 128).sum()


def test_errors_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="images="):
        draw_matches.draw(A, B, MATCHES, tmp_path / "n.png")
    with pytest.raises(ValueError, match=r"\.png"):
        drawn(MATCHES, tmp_path / "n.gif")
    with pytest.raises(ValueError, match="the image is 30x40"):
        draw_matches.draw(A, B, MATCHES, tmp_path / "n.png", images=(GRAY[:, :30], GRAY))
    assert list(tmp_path.iterdir()) == []
