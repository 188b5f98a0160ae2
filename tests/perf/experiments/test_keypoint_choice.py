"""What is left of the keypoints of an image, counted by hand."""

from __future__ import annotations

import numpy as np
import torch

from patchprint.benchmarks._known_pairs import KnownHomography
from patchprint.types import Features, Keypoints, ModelId
from perf.experiments.keypoint_choice import count_places


def test_places_are_counted_once_and_only_where_the_other_image_shows_them() -> None:
    def features(xy: list[list[float]]) -> Features:
        keypoints = Keypoints(torch.tensor(xy), torch.ones(len(xy)), torch.zeros(len(xy)))
        return Features(keypoints, torch.zeros(len(xy), 2), (100, 80), None, ModelId("made"))

    moved = np.array([[1.0, 0, 20], [0, 1, 0], [0, 0, 1]])
    first = features([[10.0, 10], [10, 10], [40, 20], [60, 60], [90, 40]])  # two angles; the last one leaves the image
    second = features([[32.0, 10], [60, 24], [80, 60]])  # 2 px off, 4 px off, there
    counts = count_places(first, second, KnownHomography(moved))
    assert counts == {"keypoints": 5, "places": 4, "inside": 3, "repeated": 2}
