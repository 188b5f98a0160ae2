"""Pairs for FPR95: drawn ones are what they claim, official ones are those of the file."""

from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint.data import PatchStore
from patchprint.data.patch_pairs import OFFICIAL_PAIRS, draw_pairs, official_pairs, pairs_of
from patchprint.ops.distances import pack_bits
from support.benchmark_data import write_store


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> PatchStore:
    folder = tmp_path_factory.mktemp("pairs") / "store"
    write_store(folder)
    return PatchStore.open(folder)


def test_drawn_pairs_are_what_they_claim(source: PatchStore) -> None:
    pairs = draw_pairs(source, 1000, seed=3)
    points, views = pairs.points[pairs.index], pairs.views[pairs.index]
    same = (points[:, 0] == points[:, 1]).numpy()
    np.testing.assert_array_equal(same, pairs.is_match)
    assert same.sum() == 500
    assert (views[same, 0] != views[same, 1]).all()
    assert (source.scene[points[:, 0]] == source.scene[points[:, 1]]).all()
    assert (views < source.num_views[points]).all()
    again = draw_pairs(source, 1000, seed=3)
    assert torch.equal(again.index, pairs.index)
    other = draw_pairs(source, 1000, seed=4)
    assert not torch.equal(other.points[other.index], points), "another seed draws other pairs"


def test_distances_of_floats_and_bits(source: PatchStore) -> None:
    pairs = draw_pairs(source, 100, seed=0)
    values = torch.randn(len(pairs.points), 16, generator=torch.Generator().manual_seed(0))
    a, b = values[pairs.index].unbind(1)
    np.testing.assert_allclose(pairs.distances(values), (a - b).norm(dim=1), rtol=1e-5)
    np.testing.assert_array_equal(pairs.distances(pack_bits(values)), ((a > 0) != (b > 0)).sum(1))


def test_the_official_list_of_a_whole_store_is_taken_and_no_other(tmp_path: Path) -> None:
    """Patches are numbered as in the file, views of a point as they come there."""
    patches = np.arange(6, dtype=np.uint8)[:, None, None].repeat(32, 1).repeat(32, 2)
    point, rows = np.array([9, 4, 7, 4, 9, 7]), np.array([[0, 4, 1], [1, 3, 1], [0, 1, 0], [2, 3, 0]])
    lists = {OFFICIAL_PAIRS: rows, "m50_1000_1000_0": rows[:1]}
    part = np.array([0, 0, 1], np.uint8)
    PatchStore.write(tmp_path / "s", [patches], point, np.zeros(6, int), ["liberty"], 12.0, pairs=lists, part=part)
    store = PatchStore.open(tmp_path / "s")
    pairs, origin = pairs_of(store, 10, seed=0)
    assert origin == "official"
    shown = store.sample(pairs.points, pairs.views[:, None], 32)[:, 0, 0, 0, 0] * 255
    assert shown.round()[pairs.index].int().tolist() == rows[:, :2].tolist()
    assert pairs.is_match.tolist() == [True, True, False, False]
    assert torch.equal(pairs.index, official_pairs(store).index)
    some, origin = pairs_of(store.split("train"), 10, seed=0)
    assert origin == "drawn" and len(some.index) == 10, "a part of a store lacks patches of the list"
