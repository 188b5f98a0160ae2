"""Contact sheets: every row one point, white where it has no more views."""

import numpy as np
import pytest
import torch

from patchprint.patches.preview import WHITE, contact_sheet
from patchprint.patches.tracks import TrackStore


def test_rows_show_one_point_and_end_white(scene):
    store = TrackStore.from_images(*scene)
    sheet = contact_sheet(store, num_points=5, num_views=6, size=16, columns=1)
    assert sheet.shape[0] == 5 * 18 and sheet.dtype == np.uint8
    cells = sheet[:16, : 6 * 18].reshape(16, 6, 18)[:, :, :16]
    for view in range(1, 4):  # a point has four views, of the same pixels
        assert np.abs(cells[:, view].astype(int) - cells[:, 0]).mean() < 3
    assert cells[:, 0].min() == 0 and cells[:, 0].max() == 255, "contrast is stretched"
    assert (cells[:, 4:] == WHITE).all()


def test_nothing_to_show_is_said(scene):
    store = TrackStore.from_images(*scene)
    store._num_views = torch.ones_like(store.num_views)
    with pytest.raises(ValueError, match="no point with two views"):
        contact_sheet(store)
