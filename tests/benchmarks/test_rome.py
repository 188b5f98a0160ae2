"""Retrieval where every patch asks for the others of its point."""

from __future__ import annotations

from pathlib import Path

import pytest
from patchprint.benchmarks.setup import Setup

from benchmark_data import write_store
from fake_describers import ConstantDescriber, CountingPixels
from patchprint.benchmarks import rome


def test_pixels_find_their_group_and_constants_score_chance(tmp_path: Path) -> None:
    write_store(tmp_path / "s", scenes=1, points=40, views=5)
    good = rome.evaluate(Setup(CountingPixels(), tmp_path / "s"), rome.Settings())
    assert good["map"] > 0.99
    assert good["queries"] == 200
    chance = rome.evaluate(Setup(ConstantDescriber(), tmp_path / "s"), rome.Settings())
    # 4 of 199 are right; the rest is what average precision has at random orders of a short list.
    assert chance["map"] == pytest.approx(0.043, abs=0.005)
    fewer = rome.evaluate(Setup(CountingPixels(), tmp_path / "s"), rome.Settings(patches=52))
    assert fewer["points"] == 10
    with pytest.raises(ValueError, match="fewer than two points"):
        rome.evaluate(Setup(CountingPixels(), tmp_path / "s"), rome.Settings(patches=5))
