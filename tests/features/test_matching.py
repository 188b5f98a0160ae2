"""Matching against a plain NumPy search, in every mode, for vectors and bits."""

from __future__ import annotations

import dataclasses
from typing import get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from patchprint.distances import nearest
from patchprint.features import match, verify
from patchprint.features.calibration import choose_ratio
from patchprint.features.compress import Pca, compress
from patchprint.features.matching import Mode
from patchprint.types import Features, Keypoints, ModelId


def features(descriptors: torch.Tensor, xy: torch.Tensor | None = None, model: str = "m") -> Features:
    count = len(descriptors)
    xy = torch.rand(count, 2, generator=torch.Generator().manual_seed(count)) * 100 if xy is None else xy
    return Features(Keypoints(xy, torch.ones(count), torch.zeros(count)), descriptors, (100, 100), None, ModelId(model))


def descriptors(count: int, dim: int = 32, seed: int = 0) -> torch.Tensor:
    return F.normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)))


def packed(count: int, seed: int = 0, width: int = 32) -> torch.Tensor:
    return torch.randint(0, 256, (count, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def distances(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    if a.dtype == torch.uint8:
        return np.unpackbits(a.numpy()[:, None] ^ b.numpy()[None], axis=2).sum(2).astype(float)
    return np.linalg.norm(a.numpy()[:, None].astype(float) - b.numpy()[None], axis=2)


@pytest.mark.parametrize("backend", ["auto", "torch", "faiss"])
@pytest.mark.parametrize("make", [descriptors, packed])
def test_nearest_is_exact(backend: str, make: object) -> None:
    a, b = make(50, seed=1), make(70, seed=2)  # type: ignore[operator]
    expected = np.sort(distances(a, b), axis=1)[:, :3]
    distance, index = nearest(a, b, 3, backend)  # type: ignore[arg-type]
    assert np.allclose(distance, expected, atol=1e-5)
    assert np.allclose(np.take_along_axis(distances(a, b), index.numpy(), 1), expected, atol=1e-5)


@pytest.mark.parametrize("make", [descriptors, packed])
def test_modes(make: object) -> None:
    a, b = make(60, seed=1), make(80, seed=2)  # type: ignore[operator]
    table = distances(a, b)
    forward, backward = table.argmin(1), table.argmin(0)
    order = np.sort(table, axis=1)
    mutual = {(i, j) for i, j in enumerate(forward) if backward[j] == i}
    passes = {(i, j) for i, j in enumerate(forward) if order[i, 0] < 0.9 * order[i, 1]}

    def found(**options: object) -> set[tuple[int, int]]:
        rows = match(features(a), features(b), **options).indices.tolist()  # type: ignore[arg-type]
        return {(i, j) for i, j in rows}

    if make is descriptors:  # bits tie, and any of equals may be the nearest
        assert found(mode="mutual") == mutual
        assert found(mode="ratio", ratio=0.9) == passes
        assert found(ratio=0.9) == mutual & passes
        assert len(found(mode="nearest")) == 60
    assert found(ratio=0.9) <= found(mode="ratio", ratio=0.9)
    limit = float(np.median(order[:, 0]))
    assert all(table[i, j] <= limit + 1e-5 for i, j in found(mode="mutual", max_distance=limit))


def test_without_options_the_ratio_of_the_features_decides() -> None:
    a, b = features(descriptors(60, seed=1)), features(descriptors(80, seed=2))
    for ratio in (0.85, 0.95):
        calibrated = dataclasses.replace(a, ratio=ratio)
        assert torch.equal(match(calibrated, b).indices, match(a, b, ratio=ratio).indices)
        assert torch.equal(match(calibrated, b, ratio=0.9).indices, match(a, b, ratio=0.9).indices)
    assert torch.equal(match(a, b).indices, match(a, b, ratio=0.8).indices), "Lowe's, where nothing was calibrated"


@pytest.mark.parametrize("bits", [False, True])
def test_fginn_ignores_second_neighbours_at_the_same_place(bits: bool) -> None:
    base = packed(20) if bits else descriptors(20)
    twice = torch.cat([base, base])  # every structure detected twice
    xy = torch.rand(20, 2, generator=torch.Generator().manual_seed(0)) * 1000
    twin = features(twice, torch.cat([xy, xy + 3]))
    query = base.clone()
    query[:, 0] = query[:, 0] ^ 1 if bits else query[:, 0] + 0.05
    a = features(query, xy)
    assert len(match(a, twin, "mutual+ratio", 0.8)) == 0
    assert len(match(a, twin, "fginn", 0.8, fginn_radius=10.0)) == 20
    assert len(match(a, twin, "fginn", 0.8, fginn_radius=1.0)) == 0


def test_prints_of_two_models_are_refused() -> None:
    with pytest.raises(ValueError, match="two different models"):
        match(features(descriptors(3), model="a"), features(descriptors(3), model="b"))
    with pytest.raises(ValueError, match="cannot compare"):
        match(features(descriptors(3, 8)), features(descriptors(3, 16)))
    with pytest.raises(ValueError, match="ratio must lie"):
        match(features(descriptors(3)), features(descriptors(3)), ratio=1.5)
    with pytest.raises(ValueError, match="not to mutual"):
        match(features(descriptors(3)), features(descriptors(3)), "mutual", ratio=0.8)
    with pytest.raises(ValueError, match="unknown mode"):
        match(features(descriptors(3)), features(descriptors(3)), "best")  # type: ignore[arg-type]


@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("make", [descriptors, packed])
def test_empty_and_tiny(n: int, m: int, mode: Mode, make: object) -> None:
    a, b = features(make(n, seed=1)), features(make(m, seed=2))  # type: ignore[operator]
    found = match(a, b, mode)
    assert found.indices.shape == (len(found), 2)
    assert verify(a, b, found).num_inliers == 0


@pytest.mark.parametrize("kind", ["homography", "fundamental", "auto"])
def test_verify_finds_the_true_matches(kind: str) -> None:
    rng = np.random.default_rng(0)
    xy = rng.uniform(0, 500, (200, 2))
    homography = np.array([[0.9, 0.2, 10.0], [-0.1, 1.1, 5.0], [1e-4, 2e-4, 1.0]])
    moved = np.c_[xy, np.ones(200)] @ homography.T
    moved = moved[:, :2] / moved[:, 2:]
    moved[150:] = rng.uniform(0, 500, (50, 2))
    same = descriptors(200)
    a, b = features(same, torch.from_numpy(xy)), features(same, torch.from_numpy(moved))
    checked = verify(a, b, match(a, b, "mutual"), kind)  # type: ignore[arg-type]
    assert checked.inliers is not None
    assert checked.inliers[:150].float().mean() > 0.97
    if kind == "homography":
        assert checked.inliers[150:].sum() < 3
        model = checked.model.numpy() / checked.model.numpy()[2, 2]  # type: ignore[union-attr]
        assert np.allclose(model, homography, rtol=0.02, atol=0.02)
    if kind == "auto":
        assert checked.geometry == "homography"
    assert torch.equal(verify(a, b, match(a, b, "mutual"), kind).inliers, checked.inliers)  # type: ignore[arg-type]


def test_compression_keeps_most_neighbours_and_its_sizes() -> None:
    clean = descriptors(300, 128)
    noisy = F.normalize(clean + 0.03 * descriptors(300, 128, seed=5) * 128**0.5 / 4)
    expected = match(features(clean), features(noisy), "mutual").indices
    pca = Pca.fit(clean, 64)
    sizes = {"fp16": 256, "int8": 128, "bits": 16, pca: 256}
    for how, size in sizes.items():
        a, b = compress(features(clean), how), compress(features(noisy), how)
        assert a.descriptors.element_size() * a.descriptors.shape[1] == size
        kept = {tuple(row) for row in match(a, b, "mutual").indices.tolist()} & {
            tuple(row) for row in expected.tolist()
        }
        assert len(kept) > 0.9 * len(expected)
        with pytest.raises(ValueError, match="two different models"):
            match(a, features(noisy))
    with pytest.raises(ValueError, match="compressed already"):
        compress(compress(features(clean), "bits"), "fp16")
    with pytest.raises(ValueError, match="never negative"):
        compress(features(clean.abs()), "bits")
    with pytest.raises(ValueError, match="unknown compression"):
        compress(features(clean), "zip")


def test_the_ratio_is_chosen_between_right_and_wrong_matches() -> None:
    """Half of the prints keep their place with a small change; the other half are strangers whose neighbours are chance."""
    clean = descriptors(400, 64)
    changed = F.normalize(clean + 0.25 * descriptors(400, 64, seed=3))
    changed[200:] = descriptors(200, 64, seed=4)
    xy = torch.rand(400, 2, generator=torch.Generator().manual_seed(1)) * 5000
    choice = choose_ratio([(features(clean, xy), features(changed, xy), xy)])
    assert 0.5 <= choice.ratio < 0.95
    assert choice.right_kept > 0.97
    assert choice.wrong_kept < 0.2
    with pytest.raises(ValueError, match="all right or all wrong"):
        choose_ratio([(features(clean, xy), features(clean, xy), xy)])
