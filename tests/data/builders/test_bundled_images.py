"""The photographs that scikit-image ships: which are learned from, and the stereo pair."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")
bundled = pytest.importorskip("patchprint.data.builders.bundled_images")
pytest.importorskip("skimage.data")


def test_the_stereo_pair_and_held_out_pictures_stay_out_of_training() -> None:
    assert not set(bundled.TRAINING) & set(bundled.HELD_OUT)
    assert not any("motorcycle" in name for name in (*bundled.TRAINING, *bundled.HELD_OUT))
    pair = bundled.stereo_pair()
    assert pair.left.shape == pair.right.shape == pair.disparity.shape
    rows, columns = np.nonzero(np.isfinite(pair.disparity[100:400:20, 200:700:20]))
    y, x = 100 + 20 * rows, 200 + 20 * columns
    there = pair.right[y, np.clip(np.rint(x - pair.disparity[y, x]).astype(int), 0, None)].astype(float)
    here = pair.left[y, x].astype(float)
    assert np.corrcoef(here, there)[0, 1] > 0.8
