"""Retrieval where every patch asks for the others of its point."""

from pathlib import Path

import pytest

from support.benchmark_data import scores_of, write_store
from support.fake_models import ConstantModel, CountingPixels


def test_pixels_find_their_group_and_constants_score_chance(tmp_path: Path) -> None:
    write_store(tmp_path / "s", scenes=1, points=40, views=5)
    good = scores_of("rome", CountingPixels(), tmp_path / "s")
    assert good["map"] > 0.99
    assert good["queries"] == 200
    chance = scores_of("rome", ConstantModel(), tmp_path / "s")
    # 4 of 199 are right; the rest is what average precision has at random orders of a short list.
    assert chance["map"] == pytest.approx(0.043, abs=0.005)
    fewer = scores_of("rome", CountingPixels(), tmp_path / "s", patches=52)
    assert fewer["points"] == 10
    with pytest.raises(ValueError, match="fewer than two points"):
        scores_of("rome", CountingPixels(), tmp_path / "s", patches=5)
