"""Clustering and ranking scores of embeddings, by scikit-learn and pytorch-metric-learning."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

import numpy as np
from torch import Tensor

from patchprint.common.errors import require

_ROWS = 1024  # queries whose similarities are in memory at a time


class Clustering(NamedTuple):
    """NMI = 2 I / (H_clusters + H_classes), and F1 of the pairs that share a cluster as a guess at those that share a class."""

    nmi: float
    f1: float


class Ranking(NamedTuple):
    """Mean average precision at R (the number of positives of each query), and precision at 1; queries without any left out."""

    map_at_r: float
    precision_at_1: float


def clusters(descriptors: np.ndarray, count: int, starts: int = 10, seed: int = 0) -> np.ndarray:
    """K-means of scikit-learn.

    Args:
        count: the number of clusters; the papers take that of the classes.
        starts: the best of this many beginnings is kept. 10 was scikit-learn's default when the papers were written; today's
            default is 1.

    Shape:
        descriptors (N, D) -> cluster of each (N,).
    """
    kmeans = require("sklearn.cluster", extra="metric-learning").KMeans(count, n_init=starts, random_state=seed)
    return kmeans.fit(descriptors).labels_


def clustering_scores(cluster: np.ndarray, label: np.ndarray) -> Clustering:
    """Score the agreement of clusters (N,) with classes (N,)."""
    metrics = require("sklearn.metrics", extra="metric-learning")
    (_, false_positive), (false_negative, true_positive) = metrics.cluster.pair_confusion_matrix(label, cluster)
    wrong = int(false_positive) + int(false_negative)
    together = 2 * int(true_positive) + wrong
    nmi = metrics.normalized_mutual_info_score(label, cluster, average_method="arithmetic")
    return Clustering(float(nmi), 2 * int(true_positive) / together if together else 1.0)


def has_ranking_scores() -> bool:
    """Whether the package that computes `ranking_scores` is installed."""
    return importlib.util.find_spec("pytorch_metric_learning") is not None


def ranking_scores(
    descriptors: Tensor, labels: Tensor, gallery: Tensor | None = None, gallery_labels: Tensor | None = None
) -> Ranking:
    """MAP@R of queries against a gallery, or of all against all others, on the device of the descriptors.

    Shape:
        descriptors (N, D), labels (N,), gallery (M, D), gallery_labels (M,).
    """
    calculators = require("pytorch_metric_learning.utils.accuracy_calculator", extra="metric-learning")
    # The library's own search in chunks; its default is FAISS, which GPU machines often lack.
    search = require("pytorch_metric_learning.utils.inference", extra="metric-learning").CustomKNN(
        require("pytorch_metric_learning.distances", extra="metric-learning").CosineSimilarity(), batch_size=_ROWS
    )
    names = ("mean_average_precision_at_r", "precision_at_1")
    calculator = calculators.AccuracyCalculator(
        include=names, k="max_bin_count", device=descriptors.device, knn_func=search
    )
    values = calculator.get_accuracy(descriptors, labels, gallery, gallery_labels)
    return Ranking(*(float(values[name]) for name in names))
