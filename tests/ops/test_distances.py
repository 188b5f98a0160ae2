"""Distances between descriptors: equal descriptors are exactly equally far, bits have Hamming distances."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.ops import distances
from patchprint.ops.distances import (
    chance_of_same_index,
    distance_matrix,
    nearest,
    nearest_both_ways,
    nearest_on_device,
    pack_bits,
    pair_distances,
    unpack_bits,
)
from support.checkout import environment
from support.made_features import all_distances, descriptors, packed


def test_floats_against_numpy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 16)).astype(np.float32), rng.normal(size=(30, 16)).astype(np.float32)
    wanted = np.linalg.norm(a[:, None].astype(float) - b[None].astype(float), axis=2)
    np.testing.assert_allclose(distance_matrix(a, b).numpy(), wanted, atol=1e-7)
    np.testing.assert_allclose(pair_distances(a, b[:20]), wanted[np.arange(20), np.arange(20)], atol=1e-7)
    for exact, tolerance in ((True, 1e-7), (False, 1e-3)):
        distance, index = nearest(torch.from_numpy(a), torch.from_numpy(b), 3, exact=exact)
        np.testing.assert_array_equal(index, wanted.argsort(1)[:, :3])
        np.testing.assert_allclose(distance, np.sort(wanted, 1)[:, :3], atol=tolerance)


def test_bits_are_counted() -> None:
    a, b = np.array([[0b10110000, 0xFF]], np.uint8), np.array([[0b00110001, 0x0F]], np.uint8)
    assert pair_distances(a, b)[0] == 6
    assert distance_matrix(a, b)[0, 0] == 6
    for exact in (True, False):
        assert nearest(torch.from_numpy(a), torch.from_numpy(b), exact=exact)[0].item() == 6


def test_bits_are_unpacked_in_the_order_they_were_packed() -> None:
    raw = torch.randn(5, 24, generator=torch.Generator().manual_seed(0))
    packed = pack_bits(raw)
    assert torch.equal(unpack_bits(packed).bool(), raw > 0)
    np.testing.assert_array_equal(packed.numpy(), np.packbits(raw.numpy() > 0, axis=1))
    with pytest.raises(ValueError, match="multiple of 8"):
        pack_bits(raw[:, :12])


def test_constant_descriptors_are_all_equally_near() -> None:
    constant = torch.nn.functional.normalize(torch.rand(1, 128), dim=1).expand(3001, 128)
    assert len(distance_matrix(constant[:700], constant).unique()) == 1


def test_chance_of_the_right_neighbor() -> None:
    a = np.eye(3, dtype=np.float32)
    b = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1]], np.float32)
    _, chance = chance_of_same_index(a, b)
    np.testing.assert_allclose(chance, [1.0, 1 / 3, 0.5])


def test_nothing_is_fine() -> None:
    empty, some = np.zeros((0, 4), np.float32), np.ones((3, 4), np.float32)
    assert nearest(torch.from_numpy(empty), torch.from_numpy(some), exact=True)[0].shape == (0, 1)
    assert pair_distances(empty, empty).shape == (0,)


@pytest.mark.parametrize("with_faiss", [True, False])
@pytest.mark.parametrize("make", [descriptors, packed])
def test_nearest_is_exact(with_faiss: bool, make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_faiss:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    a, b = make(50, seed=1), make(70, seed=2)  # type: ignore[operator]
    expected = np.sort(all_distances(a, b), axis=1)[:, :3]
    distance, index = nearest(a, b, 3)
    assert np.allclose(distance, expected, atol=1e-5)
    assert np.allclose(np.take_along_axis(all_distances(a, b), index.numpy(), 1), expected, atol=1e-5)


@pytest.mark.parametrize("make", [descriptors, packed])
@pytest.mark.parametrize(("count", "total"), [(30, 100), (3, 2), (0, 5)])
def test_neighbors_that_stay_on_a_device_are_the_same(count: int, total: int, make: Callable[..., Tensor]) -> None:
    queries, base = make(count, seed=1), make(total, seed=2)
    if queries.is_floating_point():
        queries[1:2], base[1:2] = torch.nan, torch.inf
    distance, index = nearest(queries, base, 3)
    found, number = nearest_on_device(queries, base, 3)
    torch.testing.assert_close(found, distance)
    assert torch.equal(number < 0, index < 0)
    apart = distance[:, 1:] - distance[:, :-1] > 1e-3
    is_alone = F.pad(apart, (1, 0), value=True) & F.pad(apart, (0, 1), value=False)
    assert torch.equal(number[is_alone], index[is_alone])


@pytest.mark.parametrize("dim", [3, 128])
@pytest.mark.parametrize("kind", ["floats", "int8", "bits"])
def test_mutual_neighbors_are_each_the_nearest_of_the_other(
    kind: str, dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distances, "_CHUNK_CELLS", 70 * 16)
    generator = torch.Generator().manual_seed(dim)
    a, b = (torch.randn(count, dim, generator=generator) for count in (50, 70))
    if kind == "int8":
        a, b = ((each * 40).round().clamp(-127, 127).to(torch.int8) for each in (a, b))
    elif kind == "bits":
        a, b = (pack_bits(each.repeat(1, 8)) for each in (a, b))
    exact = distance_matrix(a, b)
    for k in (1, 2, 9):
        distance, index, mutual = nearest_both_ways(a, b, k)
        np.testing.assert_allclose(distance, exact.sort(1).values[:, :k], atol=1e-3)
        np.testing.assert_allclose(exact.gather(1, index), distance, atol=1e-3)
        is_nearest_of_its_nearest = exact.gather(1, index[:, :1])[:, 0] == exact.min(0).values[index[:, 0]]
        assert len(index[mutual, 0].unique()) == mutual.sum() > 5
        assert is_nearest_of_its_nearest[mutual].all()
        if kind == "floats":  # no ties
            assert torch.equal(mutual, is_nearest_of_its_nearest)


def test_of_equal_descriptors_one_has_a_mutual_neighbor() -> None:
    a, b = torch.eye(3)[[0, 0, 1, 2]], torch.eye(3)[[2, 0, 0]]
    assert nearest_both_ways(a, b)[2].tolist() == [True, False, False, True]
    a[3, 1] = torch.nan
    distance, index, mutual = nearest_both_ways(a, b)
    assert mutual.tolist() == [True, False, False, False] and index[3] == -1 and distance[3].isinf()
    assert nearest_both_ways(a, b[:0])[2].tolist() == [False] * 4
    assert nearest_both_ways(a[:0], b)[2].tolist() == []


def test_memory_is_bounded_for_many_descriptors() -> None:
    """Small results between the chunks once fragmented their memory: 200,000 keypoints took more than 24 GiB.

    In a process of its own, since earlier tests decide how the allocator treats chunks.
    """
    code = (
        "import torch\n"
        "from patchprint.ops.distances import nearest, nearest_inconsistent\n"
        "from support.peak_memory import memory_grows_by_less_than\n"
        "a, b = torch.randn(2, 40_000, 4).unbind()\n"
        "with memory_grows_by_less_than(300):\n"
        "    _, index = nearest(a, b, 2)\n"
        "with memory_grows_by_less_than(500):\n"
        "    nearest_inconsistent(a[:8000], b, index[:8000, 0], b[:, :2], 0.1)\n"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True, timeout=300)
