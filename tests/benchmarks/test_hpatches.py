"""The three tasks on made data with 16 views of a point, with drawn and with released task files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from patchprint.benchmarks import BENCHMARKS, PredictionCache, _hpatches_tasks
from support.benchmark_data import scores_of, write_store
from support.fake_models import BinaryPixels, ConstantModel, CountingPixels

TASKS = ("verification", "matching", "retrieval")


def test_a_good_model_scores_high_and_a_constant_one_chance(hpatches_store: Path) -> None:
    good = scores_of("hpatches", CountingPixels(), hpatches_store)
    chance = scores_of("hpatches", ConstantModel(), hpatches_store)
    for task in TASKS:
        assert good[task]["map"]["matlab"] > 0.9
        assert chance[task]["map"]["matlab"] < 0.35
    # A fifth as many positives as negatives, in any order: a sixth is right. One in 24 neighbours is right by chance.
    assert chance["verification"]["easy"]["inter"]["matlab"] == pytest.approx(1 / 6, abs=0.02)
    assert chance["verification"]["easy"]["inter"]["balanced_roc_auc"] == 0.5
    assert chance["matching"]["map"]["matlab"] == pytest.approx(1 / 24, abs=0.12)
    assert good["counts"] == {"sequences": 3, "points": 72, "positives": 720, "queries": 24, "distractors": 48}


def test_definitions_and_levels_are_kept_apart(hpatches_store: Path) -> None:
    scores = scores_of("hpatches", BinaryPixels(), hpatches_store)
    for task in TASKS:
        easy, tough = scores[task]["easy"], scores[task]["tough"]
        assert scores[task]["easy_minus_tough"]["python"] == pytest.approx(easy["python"] - tough["python"])
        levels = [scores[task][level]["matlab"] for level in ("easy", "hard", "tough")]
        assert scores[task]["map"]["matlab"] == pytest.approx(np.mean(levels))
    assert set(scores["matching"]["easy"]) == {"matlab", "python", "illum", "view"}
    assert scores["published_split"] is None
    for kind in ("illum", "view"):
        levels = [scores["matching"][level][kind]["python"] for level in ("easy", "hard", "tough")]
        assert scores["matching"][kind]["python"] == pytest.approx(np.mean(levels))


def test_a_list_has_room_for_distractors(hpatches_store: Path) -> None:
    assert scores_of("hpatches", ConstantModel(), hpatches_store, list_length=6)["retrieval"]["map"]["matlab"] < 1
    for length in (5, 4, 0, -3):
        with pytest.raises(ValueError, match=f"--list-length {length} leaves no room for distractors"):
            scores_of("hpatches", ConstantModel(), hpatches_store, list_length=length)


def test_official_ties_are_those_of_the_released_scripts(hpatches_store: Path) -> None:
    """Their stable sort decides for constant descriptors: last in verification, first patch in matching, first in retrieval."""
    scores = scores_of("hpatches", ConstantModel(), hpatches_store, ties="official")
    verification = scores["verification"]["easy"]["inter"]
    assert verification["balanced_roc_auc"] == 0.0
    assert verification["matlab"] == pytest.approx(np.mean([k / (720 + k) for k in range(1, 145)]))
    assert scores["retrieval"]["map"]["python"] == 1.0
    # Every patch finds the first of 24; only for the first itself, which ranks first, that is right.
    assert scores["matching"]["map"]["matlab"] == pytest.approx(1 / 24)
    distinct = [scores_of("hpatches", CountingPixels(), hpatches_store, ties=ties) for ties in ("official", "fair")]
    assert distinct[0] == distinct[1], "without ties there is nothing to decide"


def test_published_numbers_stand_beside_the_published_sequences_only() -> None:
    benchmark = BENCHMARKS["hpatches"]()
    shown = [
        benchmark.published({"scores": {"published_split": split}, "settings": {"tasks": tasks}})
        for split, tasks in ((None, None), ("a", None), ("a", "tasks"))
    ]
    assert shown[0] == {}
    assert shown[1]["HardNet+"] == {"matching": 0.5276}, "other lists than the released ones were drawn"
    assert set(shown[2]["HardNet+"]) == {"verification", "matching", "retrieval"}


def test_splits_choose_sequences(hpatches_store: Path, tmp_path: Path) -> None:
    cache = PredictionCache(tmp_path)
    scores = scores_of("hpatches", CountingPixels(), hpatches_store, cache=cache, split="illum")
    assert scores["counts"]["sequences"] == 2
    with pytest.raises(ValueError, match="split 'a' is empty"):
        scores_of("hpatches", CountingPixels(), hpatches_store, split="a")
    names = ["i_ajuntament", "i_dc", "v_busstop", "v_graffiti", "graf"]
    assert _hpatches_tasks.test_sequences("a", names) == ["i_ajuntament", "v_busstop"]
    assert _hpatches_tasks.test_sequences("c", names) == ["i_dc", "v_busstop", "v_graffiti"]
    assert _hpatches_tasks.test_sequences("full", names) == names


def test_data_of_another_benchmark_is_refused(tmp_path: Path) -> None:
    write_store(tmp_path / "ubc", views=4)
    with pytest.raises(ValueError, match="is not HPatches data"):
        scores_of("hpatches", CountingPixels(), tmp_path / "ubc")
    strips = tmp_path / "released" / "i_dome"
    strips.mkdir(parents=True)
    (strips / "ref.png").write_bytes(b"")
    with pytest.raises(ValueError, match="patchprint data build hpatches"):
        scores_of("hpatches", CountingPixels(), tmp_path / "released")
