"""Patch verification on made stores: chance is chance, every patch is described once."""

import json
from pathlib import Path

import numpy as np
import pytest

from patchprint.benchmarks import BENCHMARKS, PredictionCache, measure, ubc
from patchprint.data import PatchStore
from patchprint.data.patch_pairs import OFFICIAL_PAIRS
from support.benchmark_data import run_of, scores_of, write_store
from support.fake_models import BinaryPixels, ConstantModel, CountingPixels
from support.known_images import texture


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ubc") / "store"
    write_store(folder)
    return folder


def test_pixels_beat_chance_and_constants_score_it(store: Path) -> None:
    good = scores_of("ubc", CountingPixels(), store, pairs=1000)
    assert good["fpr95"] < 5
    chance = scores_of("ubc", ConstantModel(), store, pairs=1000)
    assert chance["fpr95"] == 100
    assert chance["roc_auc"] == 0.5
    assert chance["ap"] == pytest.approx(0.5, abs=0.01)
    assert scores_of("ubc", BinaryPixels(), store, pairs=1000)["fpr95"] < 20


def test_every_patch_is_described_once_and_then_never_again(store: Path, tmp_path: Path) -> None:
    model = CountingPixels("first")
    first = measure(run_of("ubc", model, store, cache=PredictionCache(tmp_path), pairs=1000))
    assert model.asked == first.scores["patches"] <= 240
    second = measure(run_of("ubc", model, store, cache=PredictionCache(tmp_path), pairs=1000))
    assert model.asked == first.scores["patches"]
    assert second.scores == first.scores
    assert second.run["cache"] == {"hits": 1, "misses": 0}
    changed = CountingPixels("second")
    measure(run_of("ubc", changed, store, cache=PredictionCache(tmp_path), pairs=1000))
    assert changed.asked > 0


def test_official_pair_list(tmp_path: Path) -> None:
    clean = np.stack([texture(32, 32, seed) for seed in range(3)])
    patches = clean[[2, 0, 1, 0, 2]]  # points 2 0 1 0 2 in the order of the file
    rows = np.array([[0, 4, 1], [1, 3, 1], [0, 1, 0], [2, 3, 0]])
    PatchStore.write(
        tmp_path / "s",
        [patches],
        np.array([2, 0, 1, 0, 2]),
        np.zeros(5, int),
        ["liberty"],
        12.0,
        pairs={OFFICIAL_PAIRS: rows},
    )
    scores = scores_of("ubc", CountingPixels(), tmp_path / "s")
    assert scores["pair_list"] == "official"
    assert scores["pairs"] == 4
    assert scores["fpr95"] == 0


def test_bad_input_is_one_sentence(store: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match="is not a patch store"):
        scores_of("ubc", CountingPixels(), tmp_path / "other")
    large = CountingPixels(input_size=64)
    with pytest.raises(ValueError, match=r"needs patches of 64 pixels, .* holds 32"):
        scores_of("ubc", large, store)
    write_store(tmp_path / "one", scenes=1, points=1)
    with pytest.raises(ValueError, match="pairs need at least 2"):
        scores_of("ubc", CountingPixels(), tmp_path / "one")


def test_the_hardest_pairs_of_a_result(store: Path) -> None:
    """Pairs that descriptors get wrong: found, packed into a result, and read again."""
    scores = json.loads(json.dumps(scores_of("ubc", CountingPixels(), store, pairs=400)))
    for kind, farthest_first in (("missed", True), ("confused", False)):
        patches, distance = ubc.hardest_from_json(scores["hardest"][kind], "a result")
        assert patches.shape == (6, 2, 32, 32) and patches.dtype == np.uint8
        assert distance == sorted(distance, reverse=farthest_first)
    patches = np.random.default_rng(0).integers(0, 255, (3, 2, 5, 5), np.uint8)
    arrays = {"missed": patches, "confused": 255 - patches}
    distances = {f"{kind}_distance": np.array([0.1, 0.2, 0.3]) for kind in ubc.HARDEST}
    for kind, packed in json.loads(json.dumps(ubc.hardest_to_json({**arrays, **distances}))).items():
        read, distance = ubc.hardest_from_json(packed, "a result")
        assert (read == arrays[kind]).all() and distance == [0.1, 0.2, 0.3]


def test_bits_have_no_cosine(store: Path) -> None:
    assert set(scores_of("ubc", BinaryPixels(), store, pairs=1000)["fpr95_variants"]) == {"hardnet", "hynet"}
    assert set(scores_of("ubc", CountingPixels(), store, pairs=1000)["fpr95_variants"]) == {
        "hardnet",
        "hynet",
        "sdgmnet",
    }


def test_official_ties_fall_in_file_order(store: Path) -> None:
    """Matching pairs come first in the list, so HardNet's routine calls constant descriptors perfect."""
    official = scores_of("ubc", ConstantModel(), store, pairs=1000, ties="official")
    assert (official["fpr95"], official["roc_auc"], official["ap"]) == (0.0, 1.0, 1.0)
    assert official["fpr95_variants"]["tie-safe"] == 100


def test_published_rows(store: Path) -> None:
    result = {"data": {"path": "sets/notredame"}, "scores": {"pair_list": "official"}}
    rows = BENCHMARKS["ubc"]().published(result)
    assert rows["L2-Net CS binary+ (lib>nd)"] == {"FPR95 %": 1.90}
    assert rows["HardNet-GOR+ (yos>nd)"] == {"FPR95 %": 0.90}
    assert rows["SIFT"] == {"FPR95 %": 22.53}
    assert rows["L2-Net CS+ (hpatches)"] == {"FPR95 %": 0.73}
    assert not any("lib)" in name for name in rows), "liberty is another test set"
    assert BENCHMARKS["ubc"]().published({**result, "scores": {"pair_list": "drawn"}}) == {}
