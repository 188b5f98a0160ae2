"""The benchmark that needs no data: truth of its pairs, and models from useless to good."""

import numpy as np
import pytest
import torch

from patchprint.benchmarks import bundled
from patchprint.common.types import Keypoints
from patchprint.data.builders import bundled_images as photographs, homographies
from support.benchmark_data import scores_of
from support.fake_models import ConstantModel

pytest.importorskip("skimage.data")


@pytest.fixture
def one_photograph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photographs, "HELD_OUT", ("camera",))


@pytest.mark.usefixtures("one_photograph")
def test_order_of_models_is_sane() -> None:
    good, chance = (scores_of("bundled", model, pairs=400, keypoints=100) for model in ("rootsift", ConstantModel()))
    assert good["fpr95"] < 0.3 and chance["fpr95"] == 1.0
    for part, other in ((good, chance), (good["stereo"], chance["stereo"])):
        name = "matching_ap" if "matching_ap" in part else "ap"
        assert part[name] > 0.5 > 0.05 > other[name]
    assert 0 < good["stereo"]["correct"] <= good["stereo"]["possible"] <= good["stereo"]["keypoints"] <= 200


def test_counted_by_hand() -> None:
    blank = np.zeros((20, 20), np.uint8)
    found = [
        Keypoints(torch.tensor(xy), torch.ones(len(xy)), torch.zeros(len(xy))) for xy in ([[1.0, 1.0], [9.0, 9.0]],) * 2
    ]
    truth = torch.tensor([[1.0, 3.0], [1.0, 9.0]])  # two pixels off, and nowhere near

    class Positions(ConstantModel):
        def describe_keypoints(self, image: np.ndarray, keypoints: Keypoints) -> torch.Tensor:
            return keypoints.xy

    scores = bundled.matching(Positions(), homographies.ImagePair((blank, blank), (found[0], found[1]), truth))
    assert {name: scores[name] for name in ("correct", "possible", "keypoints")} == {
        "correct": 1,
        "possible": 1,
        "keypoints": 2,
    }
