"""Every loss teaches: 30 steps beat raw pixels on a held-out image, along the curve that was pinned."""

import pytest

pytest.importorskip("skimage", reason="the images come with scikit-image")
from patchprint.losses import LOSSES
from support import loss_training
from support.slowness import slow_but


def test_no_curve_is_left_of_a_loss_that_is_gone() -> None:
    assert {file.stem for file in loss_training.CURVES.folder.iterdir()} == set(LOSSES)


@pytest.mark.parametrize("name", slow_but({"hardnet", "sdgm", "doap-binary"}, LOSSES))
def test_beats_raw_pixels_along_the_pinned_curve(name: str) -> None:
    result = loss_training.train(name)
    _, held_out = loss_training.data()
    assert result.fpr95 < 0.8 * loss_training.false_positives(loss_training.raw_pixels(held_out))
    loss_training.CURVES.check(name, loss_training.series(result))
