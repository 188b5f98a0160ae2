"""One vector for an image: alike where images show the same, whatever the descriptor is made of."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.ops import pooling
from patchprint.ops.distances import pack_bits

NAMES = [f"{scene}{view}" for scene in "abc" for view in range(4)]


def made(name: str, dim: int = 16) -> Tensor:
    """Descriptors of an image: three quarters are of its scene, with noise; the others are its own."""
    scene = torch.Generator().manual_seed(ord(name[0]))
    own = torch.Generator().manual_seed(100 * ord(name[0]) + int(name[1]))
    common = torch.randn(150, dim, generator=scene) + 0.2 * torch.randn(150, dim, generator=own)
    return F.normalize(torch.cat([common, torch.randn(50, dim, generator=own)])[torch.randperm(200, generator=own)])


def test_vlad_by_hand() -> None:
    pool = pooling.Pooling(torch.tensor([[0.0, 0.0], [10.0, 0.0]]))
    pooled = pool(torch.tensor([[1.0, 0.0], [1.0, 2.0], [10.0, 3.0]]))
    # Deviations from the first center add up to (2, 2), from the second to (0, 3); each counts alike.
    expected = torch.tensor([0.5**0.5, 0.5**0.5, 0.0, 1.0]) / 2**0.5
    assert torch.allclose(pooled, expected)
    assert torch.equal(pool(torch.zeros(0, 2)), torch.zeros(4))


def test_centers_are_those_of_the_clusters() -> None:
    places = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    sample = places.repeat_interleave(50, 0) + 0.1 * torch.randn(150, 2, generator=torch.Generator().manual_seed(0))
    found = pooling.learn_centers(sample, 6, seed=1)
    assert len(found) == 6 and torch.cdist(places, found).min(1).values.max() < 0.5
    assert len(pooling.learn_centers(sample[:2], 6)) == 2


@pytest.mark.parametrize("ranked", [0, 100], ids=["by vectors", "by descriptors"])
@pytest.mark.parametrize("kind", ["floats", "bits"])
def test_images_of_one_scene_are_paired(kind: str, ranked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "RANKED", ranked)

    def read(name: str) -> Tensor:
        return made(name) if kind == "floats" else pack_bits(made(name))

    pairs = pooling.similar_pairs(NAMES, read, neighbors=1)
    assert len(pairs) <= 12 and pairs == sorted(set(pairs)), "at most one for each image"
    assert sum(a[0] == b[0] for a, b in pairs) >= 9, "all but the last image of a scene, whose pairs may be taken"
    assert pooling.similar_pairs(NAMES, read, neighbors=1) == pairs
    same_scene = {(a, b) for a in NAMES for b in NAMES if a < b and a[0] == b[0]}
    assert same_scene < set(pooling.similar_pairs(NAMES, read, neighbors=3))
    assert len(pooling.similar_pairs(NAMES, read, neighbors=100)) == 66, "all pairs"


def test_agreement_by_hand() -> None:
    one = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    others = torch.stack([one, one.flip(0), torch.tensor([[0.6, 0.8], [0.0, 0.0]]), torch.zeros(2, 2)])
    # Two exact matches each; then one mutual match, whose squared distances are 0.4 and 2; padding agrees with nothing.
    found = pooling.agreement(one, others)
    assert torch.allclose(found, torch.tensor([2.0, 2.0, (1 - 0.2**0.5) ** 2, 0.0]), atol=0.01)


def test_equal_and_empty_images_are_no_neighbors_of_themselves() -> None:
    def read(name: str) -> Tensor:
        return made("a0") if name in "xyz" else torch.zeros(0, 16)

    pairs = pooling.similar_pairs(list("xyzo"), read, neighbors=2)
    assert {("x", "y"), ("x", "z"), ("y", "z")} <= set(pairs)
    assert all(a != b for a, b in pairs)


@pytest.mark.parametrize("graph", [0, 10_000], ids=["lists", "graph"])
def test_an_index_finds_the_neighbors_of_many(graph: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="neighbors of many are found by FAISS (the extra cluster)")
    generator = torch.Generator().manual_seed(0)
    scenes = torch.randn(100, 32, generator=generator)
    vectors = F.normalize(scenes.repeat_interleave(6, 0) + 0.1 * torch.randn(600, 32, generator=generator))
    exact = pooling.neighbors_of_all(vectors, 6)
    monkeypatch.setattr(pooling, "EXACT", 500)
    monkeypatch.setattr(pooling, "GRAPH", graph)
    found = pooling.neighbors_of_all(vectors, 6)
    assert found.equal(pooling.neighbors_of_all(vectors, 6)), "the same each time"
    same = [len(set(a) & set(b)) for a, b in zip(found.tolist(), exact.tolist(), strict=True)]
    assert sum(same) / len(same) > 5.7


def test_vectors_of_many_images_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "_WHOLE", 8)
    monkeypatch.setattr(pooling, "_SAMPLED_IMAGES", 10)
    monkeypatch.setattr(pooling, "_SHORT", 9)
    pool = pooling.learn_pooling(NAMES, made)
    assert pool.directions is not None and pool(made("a0")).shape == (9,)
    assert sum(a[0] == b[0] for a, b in pooling.similar_pairs(NAMES, made, neighbors=1)) >= 9
    assert pooling.spread_evenly("abcdefgh", 4) == list("aceg") and pooling.spread_evenly("ab", 4) == ["a", "b"]
