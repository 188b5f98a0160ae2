"""Repeatability of detectors on made sequences, and by hand."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint.benchmarks.keypoints import SHI_TOMASI, score_pair
from patchprint.common.types import Features, Keypoints, ModelId
from support.benchmark_data import scores_of
from support.fake_models import ConstantModel
from support.known_images import texture


def test_detectors_side_by_side(sequences: Path) -> None:
    scores = scores_of("keypoints", "rootsift", sequences / "two", keypoints=200, detectors=("dog", SHI_TOMASI))
    assert set(scores["detectors"]) == {"dog", SHI_TOMASI}
    dog = scores["detectors"]["dog"]
    assert {"other", "turned by 0", "turned by 90", "warped", "other light"} < set(dog)
    assert dog["turned by 90"]["repeatability"] > 0.5
    assert dog["turned by 90"]["angles"] > 0.5
    assert dog["other"]["localization error px"] < 1.5
    upright = scores["detectors"][SHI_TOMASI]["turned by 90"]
    assert upright["repeatability"] > 0.5
    assert upright["matching score"] < 0.2 < dog["turned by 90"]["matching score"]


def test_a_third_party_pipeline_has_descriptors_of_its_own(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), texture(160, 180))
    scores = scores_of("keypoints", ConstantModel(), tmp_path, keypoints=100, detectors=("opencv-sift",))
    # All descriptors of the model are equal.
    assert scores["detectors"]["opencv-sift"]["warped"]["right"] > 10


def test_a_folder_of_images(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), texture(160, 180))
    scores = scores_of("keypoints", ConstantModel(), tmp_path, keypoints=100, detectors=("dog",))
    assert scores["pairs"]["warped"] == 1
    # All descriptors are equal, so that one pair at most is mutual.
    assert all(kind["right"] <= 1 for kind in scores["detectors"]["dog"].values())


def features(xy: list[tuple[float, float]], angle: list[float], descriptors: list[list[float]]) -> Features:
    points = Keypoints(torch.tensor(xy), 1.0, torch.tensor(angle))
    return Features(points, torch.tensor(descriptors), (100, 100), None, ModelId("hand"))


def test_counted_by_hand() -> None:
    # Two are found again, one of them with the angle of its counterpart; one descriptor is right; one lies at the border.
    a = features([(20, 20), (50, 50), (3, 50)], [0.0, 0.0, 0.0], [[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    b = features([(21, 20), (50, 52), (80, 80)], [0.1, 2.0, 0.0], [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    scores = score_pair(a, b, np.eye(3), 3.0)
    assert scores["repeatability"] == pytest.approx(2 / 2)
    assert scores["localization error px"] == pytest.approx(1.5)
    assert scores["angles"] == pytest.approx(0.5)
    assert scores["right"] == 1
    assert score_pair(a, b, np.array([[1, 0, 500.0], [0, 1, 0], [0, 0, 1]]), 3.0)["repeatability"] == 0
