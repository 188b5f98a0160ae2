"""Held-out regions of images."""

import numpy as np

from patchprint.data import splits


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


def test_a_published_test_part_is_apart_and_the_rest_is_split_as_without_it():
    scene = np.repeat(np.arange(10), 5)
    is_test = np.isin(scene, (0, 9))
    part = splits.beside_test(scene, is_test)
    assert ((part == splits.TEST) == is_test).all()
    assert np.array_equal(part[~is_test], splits.by_scene(scene[~is_test]))
    assert set(scene[part == splits.VAL]) == {8}, "the last scene that is no test"
    one = splits.beside_test(np.repeat([0, 1], 100), np.arange(200) >= 100)
    assert np.bincount(one).tolist() == [88, 12, 0, 100]
    assert (splits.beside_test(np.zeros(4, int), np.ones(4, bool)) == splits.TEST).all()
