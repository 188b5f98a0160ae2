"""Image retrieval as in metric learning: R@K, NMI, F1, MAP@R, and how much the norms of the embeddings vary.

Every image of the test classes asks for the others of its class; where a set names queries and a gallery (In-shop Clothes), the
queries ask the gallery. Images are seen as their central square. Lengths play no part in the search, but raw embeddings are
kept, since the variance of their norms is what the spherical embedding constraint (SEC) is about.
"""

import importlib.util
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._stores import for_every_image, open_images, part_of
from patchprint.common.errors import UserError, require
from patchprint.data.image_store import GALLERY, QUERY
from patchprint.metrics.recall import recall_at
from patchprint.networks.blocks import unit_length

RANKS = (1, 2, 4, 8)
GALLERY_RANKS = (1, 10, 20, 30, 40, 50)  # of In-shop Clothes
_ROWS = 1024  # queries whose similarities are in memory at a time


VARIANTS = ("", " + L2 penalty", " + SEC")
# Images and classes; those of In-shop Clothes are 14,218 queries and a gallery of 12,612.
TEST_SETS = {
    "CUB-200-2011": (5_924, 100),
    "Cars196": (8_131, 98),
    "Stanford Online Products": (60_502, 11_316),
    "In-shop Clothes": (26_830, 3_985),
}
# What the paper on SEC prints: (NMI, F1, R@1) or (R@1,), in percent, by the name of the loss and then by `VARIANTS`.
PUBLISHED: dict[str, dict[str, tuple[tuple[float, ...] | None, ...]]] = {
    "CUB-200-2011": {
        "triplet": ((59.85, 23.39, 53.34), (60.11, 24.03, 54.81), (64.24, 30.83, 60.82)),
        "semihard": ((69.66, 40.30, 65.31), (70.50, 41.39, 65.60), (71.62, 42.05, 67.35)),
        "n-pair": ((69.58, 40.23, 61.36), (69.73, 40.08, 64.58), (72.24, 43.21, 66.00)),
        "multi-similarity": ((70.57, 40.70, 66.14), (70.89, 41.71, 65.67), (72.85, 44.82, 68.79)),
        "tuplet-margin": ((68.96, 39.25, 63.64), None, (71.00, 42.28, 64.74)),
    },
    "Cars196": {
        "triplet": ((56.66, 24.44, 60.79), (56.65, 23.95, 63.02), (59.17, 25.51, 67.89)),
        "semihard": ((67.64, 38.31, 80.17), (69.24, 40.24, 82.60), (72.67, 44.67, 85.19)),
        "n-pair": ((68.07, 37.83, 78.59), (69.20, 39.13, 81.87), (70.61, 42.12, 82.29)),
        "multi-similarity": ((70.23, 42.13, 84.07), (71.00, 42.55, 84.82), (73.95, 46.49, 85.73)),
        "tuplet-margin": ((69.78, 41.72, 82.87), None, (72.77, 43.03, 84.20)),
    },
    "Stanford Online Products": {
        "triplet": ((88.67, 29.61, 62.69), (88.93, 30.91, 64.07), (89.68, 34.29, 68.86)),
        "semihard": ((91.16, 41.89, 74.46), (91.16, 41.77, 74.88), (91.72, 44.90, 77.59)),
        "n-pair": ((90.97, 41.21, 74.30), (91.12, 41.73, 75.11), (91.49, 43.75, 76.89)),
        "multi-similarity": ((91.42, 43.33, 76.29), (91.65, 44.51, 77.34), (91.89, 46.04, 78.67)),
        "tuplet-margin": ((90.50, 38.45, 73.66), None, (90.45, 37.92, 74.34)),
    },
    "In-shop Clothes": {
        "triplet": ((82.12,), (83.01,), (85.29,)),
        "semihard": ((87.16,), (88.04,), (89.68,)),
        "n-pair": ((86.43,), (86.54,), (88.63,)),
        "multi-similarity": ((88.11,), (88.51,), (89.87,)),
        "tuplet-margin": (None, None, (84.74,)),
    },
}


class Search(NamedTuple):
    """Queries and the gallery that is searched; without a gallery, queries search each other.

    Shape:
        queries (N, D), labels (N,), gallery (M, D), gallery_labels (M,).
    """

    queries: Tensor
    labels: Tensor
    gallery: Tensor | None = None
    gallery_labels: Tensor | None = None


@dataclass(frozen=True)
class Settings:
    # Which classes: those that the data keep for testing, the held-out or the other ones of training, or all.
    split: Literal["test", "val", "train", "all"] = "test"
    # Cluster the embeddings, for NMI and F1; takes long with thousands of classes.
    clusters: bool = True
    # Beginnings of k-means, of which the best is kept.
    kmeans_starts: int = 10


class Retrieval(Benchmark):
    """Image retrieval and clustering with embeddings: R@K, NMI, F1, MAP@R."""

    settings = Settings
    scoring = frozenset({"clusters", "kmeans_starts"})
    of_images = True

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return recall by K, clustering and ranking scores in [0, 1], mean and variance of the norms, and counts."""
        arrays = run.predictions("embeddings", lambda: _embed(run, settings))
        raw, label, role = (torch.from_numpy(arrays[name]).to(run.device) for name in ("raw", "label", "role"))
        descriptors, norm = unit_length(raw), raw.double().norm(dim=1)
        search = Search(descriptors, label)
        if bool((role == QUERY).any()):
            asks, answers = role == QUERY, role == GALLERY
            search = Search(descriptors[asks], label[asks], descriptors[answers], label[answers])
        ranks = RANKS if search.gallery is None else GALLERY_RANKS
        recall = recall_at(search.queries, search.labels, ranks, search.gallery, search.gallery_labels)
        found = {
            "recall": {str(k): value for k, value in recall.at.items()},
            "norm_mean": float(norm.mean()),
            "norm_variance": float(norm.var(correction=0)),
            "images": len(label),
            "classes": len(label.unique()),
            "queries": recall.queries,
            "queries_without_positive": recall.alone,
        }
        return found | _clustering_of(run, settings, descriptors, label) | ranking_scores(search)

    def headline(self, scores: Scores) -> dict[str, float]:
        values = {"R@1": scores["recall"]["1"], "NMI": scores["nmi"], "F1": scores["f1"]}
        return {name: value for name, value in values.items() if value is not None}

    def published(self, result: dict[str, Any]) -> dict[str, dict[str, float]]:
        scores, rows = result["scores"], {}
        for name, losses in PUBLISHED.items():
            if result["settings"]["split"] != "test" or (scores["images"], scores["classes"]) != TEST_SETS[name]:
                continue
            for loss, variants in losses.items():
                for variant, values in zip(VARIANTS, variants, strict=True):
                    if values is not None:
                        columns = ("NMI", "F1", "R@1")[-len(values) :]
                        shares = {column: value / 100 for column, value in zip(columns, values, strict=True)}
                        rows[f"{loss}{variant}, {name} with BN-Inception at 227 px"] = shares
        return rows


def _embed(run: Run, settings: Settings) -> dict[str, np.ndarray]:
    model, whole = run.image_model, open_images(run)
    store = part_of(whole, settings.split, str(whole.folder))
    points, views = store.all_views()
    role = store.role[store.observation(points, views[:, None])[:, 0]].cpu()
    if len(role.unique()) > 1 and not bool(((role == QUERY) | (role == GALLERY)).all()):
        raise UserError(f"only some images of {run.data_name} are queries or gallery; choose one part with --split")
    raw = for_every_image(run, store, model.raw)
    return {"raw": raw.numpy(), "label": store.label[points].cpu().numpy(), "role": role.numpy()}


def _clustering_of(run: Run, settings: Settings, descriptors: Tensor, label: Tensor) -> Scores:
    """Return scores of k-means with as many clusters as classes, as in the papers."""
    if not settings.clusters:
        return {"nmi": None, "f1": None}
    starts = settings.kmeans_starts

    def compute() -> dict[str, np.ndarray]:
        kmeans = require("sklearn.cluster", extra="metric-learning").KMeans(
            len(label.unique()), n_init=starts, random_state=run.seed
        )
        return {"cluster": kmeans.fit(descriptors.cpu().numpy()).labels_}

    cluster = run.predictions(f"clusters, best of {starts}", compute)["cluster"]
    return clustering_scores(cluster, label.cpu().numpy())


def clustering_scores(cluster: np.ndarray, label: np.ndarray) -> Scores:
    """Return NMI = 2 I / (H_clusters + H_classes), and pairwise F1: sharing a cluster predicts sharing a class.

    Shape:
        cluster (N,), label (N,)
    """
    metrics = require("sklearn.metrics", extra="metric-learning")
    (_, false_positive), (false_negative, true_positive) = metrics.cluster.pair_confusion_matrix(label, cluster)
    right = 2 * int(true_positive)
    guessed = right + int(false_positive) + int(false_negative)
    nmi = metrics.normalized_mutual_info_score(label, cluster, average_method="arithmetic")
    return {"nmi": float(nmi), "f1": right / guessed if guessed else 1.0}


def ranking_scores(search: Search) -> Scores:
    """Return mean average precision at R, the number of positives of a query, and precision at 1."""
    names = {"map_at_r": "mean_average_precision_at_r", "precision_at_1": "precision_at_1"}
    if importlib.util.find_spec("pytorch_metric_learning") is None:
        return {**dict.fromkeys(names), "left_out": "map_at_r: pytorch-metric-learning is not installed"}
    calculators = require("pytorch_metric_learning.utils.accuracy_calculator", extra="metric-learning")
    # The library's own search in chunks; its default is FAISS, which GPU machines often lack.
    knn = require("pytorch_metric_learning.utils.inference", extra="metric-learning").CustomKNN(
        require("pytorch_metric_learning.distances", extra="metric-learning").CosineSimilarity(), batch_size=_ROWS
    )
    calculator = calculators.AccuracyCalculator(
        include=tuple(names.values()), k="max_bin_count", device=search.queries.device, knn_func=knn
    )
    values = calculator.get_accuracy(*search)
    return {name: float(values[theirs]) for name, theirs in names.items()}
