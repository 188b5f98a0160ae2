"""Retrieval where every patch asks for the others of its point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from patchprint.benchmarks.rome import Rome
from patchprint.data import PatchStore, splits
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


def test_published_numbers_are_of_the_test_part(tmp_path: Path) -> None:
    patches = np.random.default_rng(0).integers(0, 256, (60, 51, 51), dtype=np.uint8)
    part = np.repeat(np.array([splits.TRAIN, splits.VAL, splits.TEST], np.uint8), 2)
    point = np.arange(60) // 10
    PatchStore.write(tmp_path / "s", [patches], point, np.zeros(60, int), ["rome"], 12.0, part=part)
    assert scores_of("rome", CountingPixels(), tmp_path / "s", split="test")["queries"] == 20
    for split, rows in (("test", 4), ("val", 0), ("train", 0), ("all", 0)):
        shown = Rome("rome").published({"scores": {"queries": 10_000}, "settings": {"split": split}})
        assert len(shown) == rows, split
