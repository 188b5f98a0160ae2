"""Predictions are computed once, never mixed up, and survive damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from patchprint.benchmarks.cache import PredictionCache
from patchprint.benchmarks.setup import Setup
from patchprint.features.describers import PixelDescriber


def test_second_question_is_answered_from_disk(tmp_path: Path) -> None:
    calls = []

    def compute() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"x": np.arange(3.0)}

    for _ in range(2):
        cache = PredictionCache(tmp_path)
        np.testing.assert_array_equal(cache.get({"model": "a", "n": 1}, compute)["x"], np.arange(3.0))
    assert len(calls) == 1
    assert (cache.hits, cache.misses) == (1, 0)
    cache.get({"model": "b", "n": 1}, compute)
    assert len(calls) == 2


def test_damaged_file_is_made_again(tmp_path: Path) -> None:
    cache = PredictionCache(tmp_path)
    cache.get({"k": 1}, lambda: {"x": np.ones(4)})
    file = next(tmp_path.glob("*.npz"))
    file.write_bytes(file.read_bytes()[:40])
    assert cache.get({"k": 1}, lambda: {"x": np.zeros(2)})["x"].shape == (2,)
    assert PredictionCache(tmp_path).get({"k": 1}, lambda: {})["x"].shape == (2,)


def test_no_folder_keeps_nothing(tmp_path: Path) -> None:
    cache = PredictionCache(None)
    cache.get({"k": 1}, lambda: {"x": np.ones(1)})
    cache.get({"k": 1}, lambda: {"x": np.ones(1)})
    assert (cache.hits, cache.misses) == (0, 2)


def test_changed_data_never_meets_old_predictions(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "a.txt"
    answers = []
    for text in ("one", "two", "one"):
        file.write_text(text)
        setup = Setup(PixelDescriber(), tmp_path / "data", cache=PredictionCache(tmp_path / "cache"))
        answers.append(
            bytes(setup.predictions({}, lambda text=text: {"x": np.frombuffer(text.encode(), np.uint8)})["x"])
        )
        assert setup.cache.hits == len(answers) // 3
    assert answers == [b"one", b"two", b"one"]
