"""Held-out regions of photos."""

import numpy as np

from patchprint.patches import splits


def test_split_shows_no_held_out_point_in_training(scene):
    _, tracks = scene
    part = splits.by_region(tracks, patch_scale=12.0)
    counts = np.bincount(part, minlength=3)
    assert counts[splits.VAL] in (7, 8) and counts[splits.NEITHER] > 0 and counts[splits.TRAIN] > 20
    for row in np.flatnonzero(part[tracks.point] == splits.TRAIN):
        held = (tracks.image == tracks.image[row]) & (part[tracks.point] == splits.VAL)
        distance = np.abs(tracks.xy[held] - tracks.xy[row]).max(1)
        assert (distance > tracks.scale[row] * 6.0).all()
    assert np.array_equal(part, splits.by_region(tracks, patch_scale=12.0))
