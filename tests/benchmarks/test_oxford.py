"""Matching along made sequences, and what happens to sequences that are not whole."""

import dataclasses
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from patchprint.benchmarks import measure, oxford
from patchprint.common.types import Features, Keypoints, ModelId
from patchprint.features.model import ModelLike, PixelModel
from patchprint.report.result_comparison import compare
from support.benchmark_data import run_of, scores_of
from support.fake_models import BinaryPixels, ConstantModel
from support.scenes import write_sequence


def evaluate(model: ModelLike, data: Path, **settings: Any) -> dict[str, Any]:
    return scores_of("oxford", model, data, keypoints=300, **settings)


@pytest.mark.parametrize("correct", ["reprojection", "overlap"])
@pytest.mark.parametrize("match", ["nn", "greedy"])
def test_rootsift_solves_made_sequences(sequences: Path, correct: str, match: str) -> None:
    scores = evaluate("rootsift", sequences, correct=correct, match=match)
    assert scores["map"] > 0.6
    assert set(scores["pairs"]) == {"one/1-2", "one/1-3", "two/1-2"}
    assert scores["sequences"]["two"] == scores["pairs"]["two/1-2"]["ap"]
    assert scores["map"] == pytest.approx(np.mean([pair["ap"] for pair in scores["pairs"].values()]))


def features(xy: list[tuple[float, float]], descriptors: list[list[float]]) -> Features:
    count = len(xy)
    points = Keypoints(torch.tensor(xy), torch.ones(count), torch.zeros(count))
    return Features(points, torch.tensor(descriptors), (100, 100), None, ModelId("hand"))


def test_counted_by_hand() -> None:
    # Two keypoints of a at one place (two orientations) find the same keypoint of b: only the nearer one counts.
    a = features([(10, 10), (10, 10), (50, 50)], [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    b = features([(10, 11), (80, 80), (50, 50)], [[1.0, 0.0], [0.1, 0.9], [-1.0, 0.0]])
    scores = oxford.score_pair(a, b, np.eye(3), oxford.Settings(curves=True))
    assert scores["positives"] == 2
    assert scores["correct"] == 1
    # Ranked: right (distance 0), then two wrong ones at one distance; one positive is never found.
    assert scores["ap"] == pytest.approx(0.5)
    assert scores["keypoint_noise"] == 0.0
    assert scores["curve"] == {"precision": [1.0, 0.3333], "recall": [0.5, 0.5]}


def test_images_without_counterparts_are_marked() -> None:
    a, b = features([(10, 10)], [[1.0, 0.0]]), features([(90, 90)], [[1.0, 0.0]])
    scores = oxford.score_pair(a, b, np.eye(3), oxford.Settings())
    assert np.isnan(scores["ap"])
    assert scores["keypoint_noise"] == 1.0


def test_keypoints_outside_of_the_common_region() -> None:
    """The second image shows the right half of the first: what lies left of it, or is cut by a border, is not matched."""
    a = features([(20, 50), (75, 50), (51, 50)], [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    b = features([(25, 50), (1, 50), (90, 50)], [[0.0, 1.0], [0.6, 0.8], [1.0, 0.0]])
    shift = np.array([[1.0, 0, -50], [0, 1, 0], [0, 0, 1]])
    kept = oxford.score_pair(a, b, shift, oxford.Settings())
    assert (kept["matches"], kept["correct"], kept["positives"]) == (3, 2, 2)
    dropped = oxford.score_pair(a, b, shift, oxford.Settings(common_region=True))
    assert (dropped["matches"], dropped["correct"], dropped["positives"]) == (2, 2, 2)
    assert dropped["ap"] == 1.0 > kept["ap"]
    large = Keypoints(a.keypoints.xy, torch.tensor([1.0, 1.0, 3.0]), a.keypoints.angle)
    cut = dataclasses.replace(a, keypoints=large)
    assert oxford.score_pair(cut, b, shift, oxford.Settings(common_region=True))["matches"] == 1


def test_nothing_to_find_is_null_in_the_result(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for number in (1, 2):
        cv2.imwrite(str(tmp_path / "s" / f"img{number}.png"), np.full((80, 90), 100, np.uint8))
    np.savetxt(tmp_path / "s" / "H1to2p", np.eye(3))
    scores = measure(run_of("oxford", PixelModel(), tmp_path)).scores
    assert scores["pairs"]["s/1-2"]["ap"] is None
    assert scores["map"] is None
    assert compare([measure(run_of("oxford", PixelModel(), tmp_path)).to_json()])


def test_bad_sequences_are_named(sequences: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no sequences"):
        evaluate(PixelModel(), tmp_path / "empty")
    with pytest.raises(ValueError, match="has no sequence three; it has one, two"):
        evaluate(PixelModel(), sequences, sequences=("three",))
    write_sequence(tmp_path / "a" / "single", images=1)
    with pytest.raises(ValueError, match="single has only one image"):
        evaluate(PixelModel(), tmp_path / "a")
    write_sequence(tmp_path / "b" / "s")
    (tmp_path / "b" / "s" / "H1to3p").unlink()
    with pytest.raises(ValueError, match="H1to3p is missing"):
        evaluate(PixelModel(), tmp_path / "b")
    (tmp_path / "b" / "s" / "H1to3p").write_text("1 2 three")
    with pytest.raises(ValueError, match="H1to3p is not a homography"):
        evaluate(PixelModel(), tmp_path / "b")


def test_order_of_models_is_sane(sequences: Path) -> None:
    maps = [evaluate(model, sequences)["map"] for model in (ConstantModel(), BinaryPixels(), "rootsift")]
    assert maps[0] < 0.02 < maps[1] < maps[2]
