"""Pairs of one place by how far their frames differ."""

import math

import numpy as np
import torch

from patchprint.metrics.correspondence import within_pixels
from patchprint.types import Keypoints
from perf.experiments.lost_matches import classes, joined


def keypoints(*rows: tuple[float, float, float, float]) -> Keypoints:
    x, y, scale, angle = torch.tensor(rows).unbind(1)
    return Keypoints(torch.stack([x, y], 1), scale, angle)


def test_each_keypoint_is_joined_once_and_alike_frames_first() -> None:
    a = keypoints((10, 10, 2, 0), (10, 10, 2, 1.5), (50, 50, 4, 0))
    b = keypoints((20, 20, 4, 1.5), (100, 100, 16, math.pi / 2))
    twice = np.diag([2.0, 2.0, 1.0])
    rows, octaves, degrees = joined(a, b, twice, within_pixels(a, b, twice, 4.0))
    assert sorted(zip(rows, octaves.round(3), degrees.round(3), strict=True)) == [(1, 0.0, 0.0), (2, 1.0, 90.0)]


def test_parts_of_classes_add_up_and_say_what_is_found() -> None:
    pairs = {
        "octaves": np.array([0.1, 0.1, 0.3, 2.0]),
        "degrees": np.array([5.0, 5.0, 30.0, 180.0]),
        "some": np.array([True, False, True, False]),
    }
    scores = classes(pairs, ["some"])
    assert scores["found"] == {"some": 0.5}
    shown = {(entry["octaves"][0], entry["degrees"][0]): entry for entry in scores["classes"] if entry["part"]}
    assert {key: (entry["part"], entry["found"]["some"]) for key, entry in shown.items()} == {
        (0.0, 0.0): (0.5, 0.5),
        (0.25, 20.0): (0.25, 1.0),
        (1.0, 45.0): (0.25, 0.0),
    }
    assert shown[1.0, 45.0]["octaves"][1] is None
