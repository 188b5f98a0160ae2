"""Global image vectors (VLAD, Jegou et al. 2010) from local descriptors, and pairs of similar images.

The centers are learned on the given images, so that it works for any descriptor. Neighbors are found exactly among few images,
and by an index of FAISS among many: a graph (HNSW), then lists (IVF), which build faster and take less memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.errors import require
from patchprint.ops.distances import as_vectors, nearest

CENTERS = 64
NEIGHBORS = 30  # images that each one is paired with
_SAMPLE = 50_000  # descriptors that the centers are learned from
_SAMPLED_IMAGES = 1_000  # most images that they come from
_WHOLE = 1_000  # images up to which vectors are not projected
_SHORT = 512  # size of a projected vector
EXACT = 20_000  # images up to which neighbors are found without an index
GRAPH = 200_000  # images up to which the index is a graph
_ROUNDS = 15  # of k-means; more do not change the pairs

Read = Callable[[str], Tensor]  # descriptors (N, D) of an image by its name: floats or uint8 packed bits


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Centers (C, D) float32 of descriptors."""

    centers: Tensor

    @staticmethod
    def learn(sample: Tensor, centers: int = CENTERS, seed: int = 0) -> Vocabulary:
        """Learn k-means centers from descriptors (N, D); fewer where there are fewer descriptors."""
        values = as_vectors(sample)
        order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
        found = values[order[:centers]].clone()
        for _ in range(_ROUNDS):
            _, index = nearest(values, found)
            total = torch.zeros_like(found).index_add_(0, index[:, 0], values)
            count = torch.bincount(index[:, 0], minlength=len(found))[:, None]
            found = torch.where(count > 0, total / count.clamp(min=1), found)
        return Vocabulary(found)

    def pool(self, descriptors: Tensor) -> Tensor:
        """Compute the VLAD of an image: (N, D) -> (C * D,) float32 of unit length, zero without descriptors."""
        values = as_vectors(descriptors)
        _, index = nearest(values, self.centers)
        total = torch.zeros_like(self.centers).index_add_(0, index[:, 0], values - self.centers[index[:, 0]])
        # Intra-normalization (Arandjelovic and Zisserman 2013), or one repeated window would decide.
        return F.normalize(F.normalize(total, dim=1).flatten(), dim=0)


@dataclass(frozen=True, eq=False)
class Pooling:
    """Vectors of images by a vocabulary and, for many images, principal directions (K, C * D) float32."""

    vocabulary: Vocabulary
    directions: Tensor | None = None

    def __call__(self, descriptors: Tensor) -> Tensor:
        """Compute the vector of an image: (N, D) -> (C * D,) or (K,) float32."""
        whole = self.vocabulary.pool(descriptors)
        return whole if self.directions is None else self.directions @ whole


def learn_pooling(names: Sequence[str], read: Read, seed: int = 0) -> Pooling:
    """Learn a pooling on images; of many, on some that are spread evenly among them."""
    some = spread_evenly(names, _SAMPLED_IMAGES)
    generator = torch.Generator().manual_seed(seed)
    share = max(1, _SAMPLE // max(1, len(some)))
    parts = []
    for name in some:
        found = read(name)
        parts.append(found[torch.randperm(len(found), generator=generator)[:share]])
    vocabulary = Vocabulary.learn(torch.cat(parts), seed=seed)
    if len(names) <= _WHOLE:
        return Pooling(vocabulary)
    _, _, directions = torch.linalg.svd(pool_images(some, read, vocabulary.pool), full_matrices=False)
    return Pooling(vocabulary, directions[:_SHORT].contiguous())


def spread_evenly(names: Sequence[str], most: int) -> list[str]:
    """Return at most ``most`` of the names at equal distances."""
    return [names[index * len(names) // most] for index in range(most)] if len(names) > most else list(names)


def pool_images(names: Sequence[str], read: Read, pool: Callable[[Tensor], Tensor]) -> Tensor:
    """Compute the vectors of images, one a row; ``pool`` is a `Pooling` or `Vocabulary.pool`."""
    return torch.stack([pool(read(name)) for name in names])


def similar_pairs(names: Sequence[str], read: Read, neighbors: int = NEIGHBORS, seed: int = 0) -> list[tuple[str, str]]:
    """Pair each image with its most similar ones; every pair once, in the order of ``names``."""
    return pair_up(names, pool_images(names, read, learn_pooling(names, read, seed)), neighbors, seed)


def pair_up(names: Sequence[str], vectors: Tensor, neighbors: int = NEIGHBORS, seed: int = 0) -> list[tuple[str, str]]:
    """Do as `similar_pairs` for images whose vectors (I, K) are known."""
    # The nearest is the image itself, unless another has the same vector.
    index = neighbors_of_all(vectors, min(neighbors + 1, len(names)), seed).numpy()
    images = np.broadcast_to(np.arange(len(names))[:, None], index.shape)
    is_other = (index != images) & (index >= 0)
    is_wanted = is_other & (is_other.cumsum(1) <= neighbors)
    found = np.stack([images[is_wanted], index[is_wanted]], 1)
    found.sort(axis=1)
    return [(names[first], names[second]) for first, second in np.unique(found, axis=0).tolist()]


def neighbors_of_all(vectors: Tensor, count: int, seed: int = 0) -> Tensor:
    """Find the nearest vectors of each, itself among them: (I, K) float32 -> (I, count) int64, -1 where there are fewer."""
    if len(vectors) <= EXACT:
        return nearest(vectors, vectors, count)[1]
    faiss = require("faiss", extra="cluster")
    values = np.ascontiguousarray(vectors.numpy(), np.float32)
    threads = faiss.omp_get_max_threads()
    try:
        index = _index(faiss, values, count, seed)
        faiss.omp_set_num_threads(threads)
        _, found = index.search(values, count)
    finally:
        faiss.omp_set_num_threads(threads)
    return torch.from_numpy(found)


def _index(faiss: Any, values: np.ndarray, count: int, seed: int) -> Any:
    """Build an index: a graph for some vectors, lists for more."""
    number, size = values.shape
    if number <= GRAPH:
        graph = faiss.index_factory(size, "HNSW32")
        graph.hnsw.efConstruction, graph.hnsw.efSearch = 80, max(64, 2 * count)
        faiss.omp_set_num_threads(1)  # several threads are not deterministic
        graph.add(values)
        return graph
    lists = faiss.index_factory(size, f"IVF{int(4 * number**0.5)},Flat")
    lists.cp.seed, lists.nprobe = seed, 32
    lists.train(values[np.random.default_rng(seed).permutation(number)[: 64 * lists.nlist]])
    lists.add(values)
    return lists
