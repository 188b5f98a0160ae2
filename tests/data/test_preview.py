"""Contact sheets: every row one point, white where it has no more views."""

import numpy as np
import pytest
import torch

from patchprint.data.builders.labeled_images import build
from patchprint.data.image_store import ImageStore
from patchprint.data.preview import WHITE, contact_sheet
from patchprint.data.tracks import TrackStore
from support.labeled_sets import color_of, write_folders


def test_rows_show_one_point_and_end_white(scene):
    store = TrackStore.from_images(*scene)
    sheet = contact_sheet(store, num_points=5, num_views=6, size=16, columns=1)
    assert sheet.shape[0] == 5 * 18 and sheet.dtype == np.uint8
    cells = sheet[:16, : 6 * 18].reshape(16, 6, 18)[:, :, :16]
    for view in range(1, 4):  # a point has four views, of the same pixels
        assert np.abs(cells[:, view].astype(int) - cells[:, 0]).mean() < 3
    assert cells[:, 0].min() == 0 and cells[:, 0].max() == 255, "contrast is stretched"
    assert (cells[:, 4:] == WHITE).all()


def test_colors_are_shown(tmp_path):
    build(write_folders(tmp_path / "set", "ab", images=3), tmp_path / "out", train_classes=2)
    sheet = contact_sheet(ImageStore.open(tmp_path / "out"), num_views=4, size=8, columns=1)
    assert sheet.shape[0] == 2 * 10 and sheet.shape[2] == 3
    colors = {tuple(np.argsort(sheet[row, 0])) for row in (0, 10)}
    assert colors == {tuple(np.argsort(color_of(label))) for label in "ab"}, (
        "stretched, but as red, green and blue were"
    )
    assert np.ptp(sheet[0, 0]) == 255 and (sheet[:, 30:] == WHITE).all()


def test_nothing_to_show_is_said(scene):
    store = TrackStore.from_images(*scene)
    store.num_views = torch.ones_like(store.num_views)
    with pytest.raises(ValueError, match="no point with two views"):
        contact_sheet(store)
