"""Models and engines do the same work in turns. No test asks for seconds."""

from __future__ import annotations

import time
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint.common.errors import UserError
from patchprint.pipelines import bench
from patchprint.pipelines.bench import BenchImages, Times, read_images, stage_table, take_turns

CPU = torch.device("cpu")
MODELS = ["hardnet.small", "sdgmnet.tiny"]


@pytest.fixture(scope="module")
def data() -> BenchImages:
    return read_images(None, count=2, megapixels=0.05, keypoints=40)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SHORTEST", 0.0)
    monkeypatch.setattr(bench, "PAUSE", 0.0)


def test_contenders_take_turns() -> None:
    calls: list[str] = []
    times = take_turns("letters", {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3, CPU)
    assert "".join(calls)[-6:] == "ababab"
    assert {name: len(taken.rounds) for name, taken in times.items()} == {"a": 3, "b": 3}


def test_a_fast_call_is_repeated_within_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SHORTEST", 0.01)
    calls = []
    (taken,) = take_turns("one", {"a": lambda: calls.append(time.sleep(0.001))}, 1, CPU).values()
    assert len(calls) > 3 and taken.best < 0.01, "a measurement counts as one call of it"


def test_ratios_are_taken_within_rounds() -> None:
    own, other = Times((1.0, 2.0, 10.0)), Times((2.0, 8.0, 10.0))
    assert own.times_faster_than(other) == 2.0  # of 2, 4 and 1


def test_images_have_the_size_that_is_asked_for(data: BenchImages) -> None:
    assert [image.size / 1e6 for image in data.images] == pytest.approx([0.05, 0.05], rel=0.02)


def test_wrong_numbers_and_folders_are_refused(data: BenchImages, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--rounds is 0"):
        bench.bench(data, models=MODELS, rounds=0)
    for bad in ({"count": 1}, {"megapixels": 0.0}, {"keypoints": 0}):
        with pytest.raises(UserError, match=" is "):
            read_images(None, **{"count": 2, "megapixels": 0.1, "keypoints": 9, **bad})
    cv2.imwrite(str(tmp_path / "one.png"), np.zeros((40, 40), np.uint8))
    with pytest.raises(UserError, match="at least two"):
        read_images(tmp_path, 2, 0.1, 9)
    cv2.imwrite(str(tmp_path / "two.png"), np.zeros((40, 40), np.uint8))
    with pytest.raises(UserError, match="no keypoints"):
        read_images(tmp_path, 2, 0.1, 9)


def test_every_stage_times_every_model(data: BenchImages) -> None:
    result = bench.bench(data, models=MODELS, engines=["auto", "float32"], rounds=1, device="cpu")
    assert list(result.scores) == list(bench.STAGES)
    both = {f"patchprint {model}{engine}" for model in MODELS for engine in ("", ", float32")}
    for name, stage in result.scores.items():
        assert set(stage["contenders"]) == (both if name == "describe" else {each for each in both if "," not in each})
        table = stage_table(stage)
        times = [stage["contenders"][row[0]]["best_ms"] for row in table.rows]
        assert times == sorted(times) and all(each > 0 for each in times), "the fastest comes first"
        assert all(len(row) == len(table.header) for row in table.rows)
