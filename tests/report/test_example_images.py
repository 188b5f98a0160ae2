"""Pairs of patches as images."""

import numpy as np

from patchprint.report.example_images import pair_gallery


def test_hardest_pairs() -> None:
    missed = pair_gallery(np.zeros((3, 2, 32, 32), np.uint8), [1.2, 1.1, 1.0], "missed", " (mine)")
    assert [image.caption for image in missed.images] == ["1.20", "1.10", "1.00"]
    assert missed.images[0].size == (2 * 34, 2 * 67), "two framed patches above each other, twice as large"
