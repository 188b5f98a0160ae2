"""Distances between prints: equal prints must be exactly equally far, bits are compared by Hamming distance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from patchprint.benchmarks.descriptors import chance_of_same_index, distance_matrix, nearest, pair_distances


def test_floats_against_numpy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 16)).astype(np.float32), rng.normal(size=(30, 16)).astype(np.float32)
    wanted = np.linalg.norm(a[:, None].astype(float) - b[None].astype(float), axis=2)
    np.testing.assert_allclose(distance_matrix(a, b).numpy(), wanted, atol=1e-7)
    np.testing.assert_allclose(pair_distances(a, b[:20]), wanted[np.arange(20), np.arange(20)], atol=1e-7)
    index, distance = nearest(a, b)
    np.testing.assert_array_equal(index, wanted.argmin(1))
    np.testing.assert_allclose(distance, wanted.min(1), atol=1e-7)


def test_bits_are_counted() -> None:
    a, b = np.array([[0b10110000, 0xFF]], np.uint8), np.array([[0b00110001, 0x0F]], np.uint8)
    assert pair_distances(a, b)[0] ** 2 == pytest.approx(6)
    assert distance_matrix(a, b)[0, 0] ** 2 == pytest.approx(6)


def test_constant_prints_are_all_equally_near() -> None:
    constant = torch.nn.functional.normalize(torch.rand(1, 128), dim=1).expand(3001, 128)
    assert len(distance_matrix(constant[:700], constant).unique()) == 1


def test_chance_of_the_right_neighbour() -> None:
    a = np.eye(3, dtype=np.float32)
    b = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1]], np.float32)
    _, chance = chance_of_same_index(a, b)
    np.testing.assert_allclose(chance, [1.0, 1 / 3, 0.5])


def test_nothing_is_fine() -> None:
    empty, some = np.zeros((0, 4), np.float32), np.ones((3, 4), np.float32)
    assert nearest(empty, some)[0].shape == (0,)
    assert pair_distances(empty, empty).shape == (0,)
