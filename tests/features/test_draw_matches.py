"""The drawing of matches shows the photos, a line for each match, and its color says what verification thinks."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint.common.types import Features, Keypoints, Matches, ModelId
from patchprint.features import draw_matches

BACKGROUND = (128, 128, 128)
GRAY = np.full((40, 60), 128, np.uint8)


def two(xy: list[tuple[float, float]]) -> Features:
    points = Keypoints(torch.tensor(xy), torch.ones(len(xy)), torch.zeros(len(xy)))
    return Features(points, torch.zeros(len(xy), 4), (60, 40), None, ModelId("m"))


A, B = two([(10, 10), (10, 30)]), two([(50, 10), (50, 30)])
MATCHES = Matches(torch.tensor([[0, 0], [1, 1]]), torch.zeros(2))
VERIFIED = Matches(MATCHES.indices, MATCHES.distance, torch.tensor([True, False]))


def drawn(matches: Matches, path: Path, **options: object) -> np.ndarray:
    draw_matches.draw(A, B, matches, path, images=(GRAY, GRAY), **options)  # type: ignore[arg-type]
    return cv2.imread(str(path))[..., ::-1]


def colors_of_lines(picture: np.ndarray) -> list[tuple[int, int, int]]:
    """Which of the colors the middles of the two lines have; lines are blended with what is below them."""
    colors = np.array([BACKGROUND, draw_matches.AGREE, draw_matches.DISAGREE, draw_matches.UNKNOWN])
    nearest = [np.abs(colors - picture[row, 60].astype(int)).sum(1).argmin() for row in (10, 30)]
    return [tuple(colors[index].tolist()) for index in nearest]


def test_lines_have_the_color_of_what_is_known(tmp_path: Path) -> None:
    plain = drawn(MATCHES, tmp_path / "plain.png")
    assert plain.shape == (40, 120, 3)
    assert colors_of_lines(plain) == [draw_matches.UNKNOWN, draw_matches.UNKNOWN]
    assert tuple(plain[20, 60]) == BACKGROUND
    checked = drawn(VERIFIED, tmp_path / "checked.png")
    assert colors_of_lines(checked) == [draw_matches.AGREE, BACKGROUND]
    both = drawn(VERIFIED, tmp_path / "both.png", outliers=True)
    assert colors_of_lines(both) == [draw_matches.AGREE, draw_matches.DISAGREE]


def test_many_lines_are_thinned(tmp_path: Path) -> None:
    assert colors_of_lines(drawn(MATCHES, tmp_path / "one.png", max_lines=1)) == [draw_matches.UNKNOWN, BACKGROUND]


def test_large_photos_are_drawn_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_matches, "MAX_SIDE", 30)
    assert drawn(MATCHES, tmp_path / "small.png").shape == (20, 60, 3)


def test_what_cannot_be_drawn_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="images="):
        draw_matches.draw(A, B, MATCHES, tmp_path / "n.png")
    with pytest.raises(ValueError, match=r"\.png"):
        drawn(MATCHES, tmp_path / "n.gif")
    with pytest.raises(ValueError, match="the image is 30x40"):
        draw_matches.draw(A, B, MATCHES, tmp_path / "n.png", images=(GRAY[:, :30], GRAY))
    assert list(tmp_path.iterdir()) == []


def test_keypoints_are_marked_where_they_are_asked_for() -> None:
    panels = (draw_matches.panel(np.repeat(GRAY[..., None], 3, -1)),) * 2
    alone = Matches(torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0))
    bare, marked = (draw_matches.picture(panels, A, B, alone, keypoints=asked) for asked in (False, True))
    assert (bare == 128).all()
    changed = np.argwhere((marked != 128).any(-1))[:, ::-1]
    for place in [*draw_matches.Layout.of(panels, A, B).place(0, A.keypoints.xy), (110, 10), (110, 30)]:
        assert np.abs(changed - place).max(1).min() <= 2


def test_a_place_of_the_picture_and_back() -> None:
    layout = draw_matches.Layout(((600, 400), (300, 500)), (0.5, 0.25))
    assert layout.size == (900, 500)
    for side, xy in ((0, (10.0, 20.0)), (1, (1100.0, 30.0))):
        found, back = layout.find(*layout.place(side, np.array([xy]))[0])
        assert found == side and back == pytest.approx(xy)
    assert layout.place(1, np.array([[-0.5, -0.5]])).tolist() == [[599.5, -0.5]]  # the outer edge of the second


def test_a_ring_is_seen_on_black_and_on_white() -> None:
    for ground in (0, 255):
        canvas = np.full((40, 40, 3), ground, np.uint8)
        draw_matches.ring(canvas, np.array([20.0, 20.0]), 8, (255, 210, 60))
        assert tuple(canvas[20, 28]) == (255, 210, 60) and tuple(canvas[20, 20]) == (ground,) * 3
