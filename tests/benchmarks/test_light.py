"""Fixed cameras in changing light."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from patchprint.common.errors import UserError
from support.benchmark_data import scores_of
from support.fake_models import ConstantModel
from support.known_images import texture


@pytest.fixture
def cameras(tmp_path: Path) -> Path:
    for camera in ("one", "two"):
        (tmp_path / camera).mkdir()
        for number in range(4):
            scene = texture(160, 180, seed=len(camera) + ord(camera[0])) / 255.0
            cv2.imwrite(str(tmp_path / camera / f"{number}.png"), np.round(255 * scene ** (1 + 0.2 * number)))
    return tmp_path


def test_rootsift_sees_through_a_tone_curve(cameras: Path) -> None:
    scores = scores_of("light", "rootsift", cameras, keypoints=200, pairs=2, detectors=("dog",))
    assert scores["num_pairs"] == 4
    assert set(scores["cameras"]) == {"one", "two"}
    assert scores["rank 1"] > 0.8
    assert scores["detectors"]["dog"]["repeatability"] > 0.5
    assert scores["detectors"]["dog"]["precision"] > 0.8


def test_a_constant_model_ranks_by_chance(cameras: Path) -> None:
    assert scores_of("light", ConstantModel(), cameras, keypoints=200, pairs=2, detectors=("dog",))["rank 1"] < 0.05


def test_images_without_cameras(cameras: Path) -> None:
    with pytest.raises(UserError, match="each camera"):
        scores_of("light", ConstantModel(), cameras / "one")
