"""Clusters and ranked lists on cases that can be counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from patchprint.benchmarks import _clustering
from patchprint.benchmarks._clustering import clustering_scores, clusters, ranking_scores
from patchprint.metrics.recall import recall_at

pytest.importorskip("sklearn")


def test_perfect_clusters_under_other_numbers() -> None:
    assert clustering_scores(np.array([7, 7, 3, 3, 5]), np.array([0, 0, 1, 1, 2])) == (pytest.approx(1), 1)


def test_all_in_one_cluster() -> None:
    """It says nothing (NMI 0), and all 6 pairs are guessed, of which 2 are right: P = 1/3, R = 1, F1 = 1/2."""
    assert clustering_scores(np.zeros(4, int), np.array([0, 0, 1, 1])) == (pytest.approx(0), pytest.approx(0.5))


def test_one_image_in_the_wrong_cluster() -> None:
    """Clusters {a a a b} {b b}: 3 + 1 of 6 + 1 guessed pairs are right, of 6 to be found."""
    cluster, label = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 1])
    scores = clustering_scores(cluster, label)
    precision, recall = 4 / 7, 4 / 6
    assert scores.f1 == pytest.approx(2 * precision * recall / (precision + recall))
    h_label, h_cluster = math.log(2), -(4 / 6) * math.log(4 / 6) - (2 / 6) * math.log(2 / 6)
    joint = [3 / 6, 1 / 6, 2 / 6]
    shared = h_label + h_cluster + sum(p * math.log(p) for p in joint)
    assert scores.nmi == pytest.approx(2 * shared / (h_label + h_cluster))


def test_k_means_finds_what_is_apart_and_repeats_itself() -> None:
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(6), 20)
    vectors = F.normalize(torch.from_numpy(np.eye(6, 16)[label] + rng.normal(0, 0.05, (120, 16))).float(), dim=1)
    found = clusters(vectors.numpy(), 6)
    assert clustering_scores(found, label) == (pytest.approx(1), 1)
    np.testing.assert_array_equal(clusters(vectors.numpy(), 6), found)


def test_map_at_r_by_hand() -> None:
    """Two positives each for the a's: precision is summed over the first two places alone."""
    pytest.importorskip("pytorch_metric_learning")
    angle = torch.tensor([0.0, 10, 30, 16, 200]).deg2rad()
    vectors = torch.stack([angle.cos(), angle.sin()], 1)
    labels = torch.tensor([0, 0, 0, 1, 2])
    # 0: a, b -> (1 + 0) / 2. 10: b, a -> (0 + 1/2) / 2. 30: b, a -> (0 + 1/2) / 2. The other two have no positive.
    scores = ranking_scores(vectors, labels)
    assert scores.map_at_r == pytest.approx((1 / 2 + 1 / 4 + 1 / 4) / 3)
    assert scores.precision_at_1 == pytest.approx(1 / 3)


def test_the_library_agrees_with_recall_about_the_first_neighbor(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pytorch_metric_learning")
    generator = torch.Generator().manual_seed(1)
    vectors = F.normalize(torch.randn(90, 6, generator=generator), dim=1)
    labels = torch.randint(0, 7, (90,), generator=generator)
    whole = ranking_scores(vectors, labels)
    assert whole.precision_at_1 == pytest.approx(recall_at(vectors, labels, (1,)).at[1])
    apart = ranking_scores(vectors[:30], labels[:30], vectors[30:], labels[30:])
    assert apart.precision_at_1 == pytest.approx(
        recall_at(vectors[:30], labels[:30], (1,), vectors[30:], labels[30:]).at[1]
    )
    monkeypatch.setattr(_clustering, "_ROWS", 13)
    assert ranking_scores(vectors, labels) == whole
