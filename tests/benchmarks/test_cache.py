"""Predictions are computed once, never mixed up, and survive damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from patchprint.benchmarks import PredictionCache
from patchprint.benchmarks._cache import code_checksum


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


def test_the_code_checksum_sees_the_sampler_and_not_the_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "patchprint"
    for name in ("__init__.py", "sampler/__init__.py", "report/page.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    monkeypatch.setattr("patchprint.__file__", str(package / "__init__.py"))
    sums = [code_checksum.__wrapped__()]
    for name in ("report/page.py", "sampler/__init__.py"):
        (package / name).write_text("2")
        sums.append(code_checksum.__wrapped__())
    assert sums[0] == sums[1] != sums[2]
