"""Pairs of images whose homography is estimated."""

from pathlib import Path

import pytest

from support.benchmark_data import scores_of
from support.fake_models import ConstantModel


def test_solved_pairs(sequences: Path) -> None:
    good = scores_of("pairs", "rootsift", sequences, draw=100)
    assert good["solved"] == 3
    assert all(pair["corner_error"] < 5 for pair in good["pairs"].values())
    assert good["accuracy"] == pytest.approx(good["correct"] / 100)
    poor = scores_of("pairs", ConstantModel(), sequences, draw=100)
    assert poor["solved"] == 0
    assert poor["correct"] < 5


def test_all_keypoints_of_the_second_image(sequences: Path) -> None:
    """With few keypoints kept, most of those drawn have no counterpart left, unless the second image keeps all."""
    few = scores_of("pairs", "rootsift", sequences, keypoints=30)
    all_of_second = scores_of("pairs", "rootsift", sequences, keypoints=30, all_of_second=True)
    for name, pair in all_of_second["pairs"].items():
        assert pair["drawn"] == few["pairs"][name]["drawn"] == 30
    assert all_of_second["correct"] > few["correct"]
