"""Matches of the hard pair are judged by its true geometry."""

import cv2
import numpy as np

from perf.experiments import hard_pair


def test_true_matches_are_correct_and_shifted_or_unknown_ones_are_not() -> None:
    turned, homography = hard_pair.tilted_view(np.zeros((50, 80), np.uint8))
    disparity = np.full((50, 80), 4.0)
    disparity[0] = np.nan  # no truth there
    in_a = np.array([[10.0, 20.0], [60.0, 30.0], [30.0, 0.0]])
    in_b = cv2.perspectiveTransform((in_a - [4.0, 0.0])[None], homography)[0]
    assert (in_b[:2] >= 0).all() and (in_b[:2] < turned.shape[::-1]).all()
    assert hard_pair.are_correct(in_a, in_b, disparity, homography).tolist() == [True, True, False]
    assert not hard_pair.are_correct(in_a, in_b + 4.0, disparity, homography).any()
    assert hard_pair.are_correct(in_a[:0], in_b[:0], disparity, homography).shape == (0,)
