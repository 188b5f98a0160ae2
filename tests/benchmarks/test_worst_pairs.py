"""Pairs that descriptors get wrong: found, packed into a result, and read again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from patchprint.benchmarks import _worst_pairs
from support.benchmark_data import scores_of, write_store
from support.fake_models import CountingPixels


def test_the_hardest_pairs_of_a_result(tmp_path: Path) -> None:
    write_store(tmp_path / "store")
    scores = json.loads(json.dumps(scores_of("ubc", CountingPixels(), tmp_path / "store", pairs=400)))
    for kind, is_ordered in (
        ("missed", lambda d: d == sorted(d, reverse=True)),
        ("confused", lambda d: d == sorted(d)),
    ):
        patches, distance = _worst_pairs.from_json(scores["hardest"][kind], "a result")
        assert patches.shape == (6, 2, 32, 32) and patches.dtype == np.uint8
        assert is_ordered(distance)
    assert len(json.dumps(scores["hardest"])) < 40_000


def test_packing_keeps_every_pixel() -> None:
    random = np.random.default_rng(0)
    arrays = {
        name: values
        for kind in _worst_pairs.KINDS
        for name, values in (
            (kind, random.integers(0, 255, (3, 2, 5, 5), np.uint8)),
            (f"{kind}_distance", np.array([0.1, 0.2, 0.3])),
        )
    }
    packed = json.loads(json.dumps(_worst_pairs.to_json(arrays)))
    for kind in _worst_pairs.KINDS:
        patches, distance = _worst_pairs.from_json(packed[kind], "a result")
        assert (patches == arrays[kind]).all() and distance == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    "entry", [None, {}, {"distance": [1], "png": "?"}, {"distance": ["a"], "png": ""}, {"distance": [], "png": ""}]
)
def test_damaged_entries_are_named(entry: object) -> None:
    with pytest.raises(ValueError, match="the result of ours"):
        _worst_pairs.from_json(entry, "the result of ours")
