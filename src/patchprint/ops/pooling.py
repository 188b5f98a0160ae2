"""Global image vectors (VLAD, Jegou et al. 2010) from local descriptors, and pairs of similar images.

The centers are learned on the given images, so that it works for any descriptor. Neighbors are found exactly among few images,
and by an index of FAISS among many: a graph (HNSW), then lists (IVF), which build faster and take less memory. The nearest
are ranked by mutual nearest neighbors among their local descriptors, which tell more than one vector does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.errors import require
from patchprint.common.progress import progress
from patchprint.ops.distances import as_vectors, nearest

CENTERS = 64
NEIGHBORS = 20  # pairs that each image is given
CANDIDATES = 100  # images with the nearest vectors that are compared by their local descriptors
RANKED = 10_000  # images up to which they are
_COMPARED = 300  # local descriptors of an image that are compared
_TOGETHER = 32  # images that one is compared with at a time
_MULTIPLIED = 1 << 16  # pairs whose vectors are multiplied at a time
_SAMPLE = 50_000  # descriptors that the centers are learned from
_SAMPLED_IMAGES = 1_000  # most images that they come from
_WHOLE = 1_000  # images up to which vectors are not projected
_SHORT = 512  # size of a projected vector
EXACT = 20_000  # images up to which neighbors are found without an index
GRAPH = 200_000  # images up to which the index is a graph
_ROUNDS = 15  # of k-means; more do not change the pairs

Read = Callable[[str], Tensor]  # descriptors (N, D) of an image by its name: floats or uint8 packed bits


@dataclass(frozen=True, eq=False)
class Pooling:
    """Vectors of images by centers (C, D) of descriptors and, for many images, principal directions (K, C * D), float32."""

    centers: Tensor
    directions: Tensor | None = None

    def __call__(self, descriptors: Tensor) -> Tensor:
        """Compute the VLAD of an image: (N, D) -> (C * D,) or (K,) float32 of unit length, zero without descriptors."""
        values = as_vectors(descriptors)
        _, index = nearest(values, self.centers)
        total = torch.zeros_like(self.centers).index_add_(0, index[:, 0], values - self.centers[index[:, 0]])
        # Intra-normalization (Arandjelovic and Zisserman 2013), or one repeated window would decide.
        whole = F.normalize(F.normalize(total, dim=1).flatten(), dim=0)
        return whole if self.directions is None else self.directions @ whole


def learn_centers(sample: Tensor, count: int = CENTERS, seed: int = 0) -> Tensor:
    """Learn k-means centers from descriptors (N, D); fewer where there are fewer descriptors."""
    values = as_vectors(sample)
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
    found = values[order[:count]].clone()
    for _ in range(_ROUNDS):
        _, index = nearest(values, found)
        total = torch.zeros_like(found).index_add_(0, index[:, 0], values)
        members = torch.bincount(index[:, 0], minlength=len(found))[:, None]
        found = torch.where(members > 0, total / members.clamp(min=1), found)
    return found


def learn_pooling(names: Sequence[str], read: Read, seed: int = 0) -> Pooling:
    """Learn a pooling on images; of many, on some that are spread evenly among them."""
    some = spread_evenly(names, _SAMPLED_IMAGES)
    generator = torch.Generator().manual_seed(seed)
    share = max(1, _SAMPLE // max(1, len(some)))
    parts = []
    for name in some:
        found = read(name)
        parts.append(found[torch.randperm(len(found), generator=generator)[:share]])
    pooling = Pooling(learn_centers(torch.cat(parts), seed=seed))
    if len(names) <= _WHOLE:
        return pooling
    _, _, directions = torch.linalg.svd(pool_images(some, read, pooling), full_matrices=False)
    return Pooling(pooling.centers, directions[:_SHORT].contiguous())


def spread_evenly(names: Sequence[str], most: int) -> list[str]:
    """Return at most ``most`` of the names at equal distances."""
    return [names[index * len(names) // most] for index in range(most)] if len(names) > most else list(names)


def pool_images(names: Sequence[str], read: Read, pool: Pooling) -> Tensor:
    """Compute the vectors of images, one a row."""
    return torch.stack([pool(read(name)) for name in names])


def similar_pairs(
    names: Sequence[str], read: Read, neighbors: int = NEIGHBORS, seed: int = 0, vectors: Tensor | None = None
) -> list[tuple[str, str]]:
    """Pair each image with the ``neighbors`` most similar ones that it is not paired with yet.

    The images with the nearest vectors are candidates. Of these the images whose local descriptors agree best are the most
    similar (`agreement`); in collections of more than 10,000 images those with the nearest vectors.

    Args:
        vectors: (I, K) of the images, where they are known.

    Returns:
        At most ``neighbors`` pairs for each image, every pair once, in the order of ``names``.
    """
    if vectors is None:
        vectors = pool_images(names, read, learn_pooling(names, read, seed))
    is_ranked = len(names) <= RANKED
    count = max(CANDIDATES, 4 * neighbors) if is_ranked else 2 * neighbors
    index = neighbors_of_all(vectors, min(count + 1, len(names)), seed).numpy()
    images = np.broadcast_to(np.arange(len(names))[:, None], index.shape)
    is_other = (index != images) & (index >= 0)
    pairs = np.unique(np.sort(np.stack([images[is_other], index[is_other]], 1), axis=1), axis=0)
    if is_ranked:
        likeness = _agreements(pairs, _samples(names, read, seed))
    else:
        ends = torch.from_numpy(pairs).split(_MULTIPLIED)
        likeness = torch.cat([(vectors[part[:, 0]] * vectors[part[:, 1]]).sum(1) for part in ends])
    return [(names[a], names[b]) for a, b in pairs[_share(pairs, likeness.numpy(), len(names), neighbors)].tolist()]


def agreement(one: Tensor, others: Tensor) -> Tensor:
    """Score how well the local descriptors of images agree: the sum of (1 - ratio)^2 over mutual nearest neighbors.

    The ratio is that of Lowe's test, so that the score needs no threshold and suits any descriptor.

    Shape:
        one (N, D) and others (K, N, D) of equal lengths, or zero (padding) -> (K,)
    """
    products = one @ others.transpose(1, 2)
    best, nearest_there = products.topk(min(2, products.shape[2]), dim=2)
    is_mutual = products.argmax(1).gather(1, nearest_there[..., 0]) == torch.arange(len(one))
    first, second = (2 * (1 - best[..., place]).clamp(min=1e-6) for place in (0, -1))
    return ((1 - (first / second).sqrt()).square() * is_mutual).sum(1)


def _samples(names: Sequence[str], read: Read, seed: int) -> list[Tensor]:
    """Draw some local descriptors of each image: (N, D) float16 of unit length, padded with zeros."""
    generator, samples = torch.Generator().manual_seed(seed), []
    for name in progress(names, "reading descriptors", "image"):
        found = read(name)
        some = as_vectors(found[torch.randperm(len(found), generator=generator)[:_COMPARED]])
        samples.append(F.pad(F.normalize(some), (0, 0, 0, _COMPARED - len(some))).half())
    return samples


def _agreements(pairs: np.ndarray, samples: Sequence[Tensor]) -> Tensor:
    """Compute the `agreement` of pairs (P, 2), sorted by their first image."""
    scores = torch.zeros(len(pairs))
    firsts, starts = np.unique(pairs[:, 0], return_index=True)
    for first, start, end in progress(
        list(zip(firsts, starts, [*starts[1:], len(pairs)], strict=True)), "comparing images", "image"
    ):
        for at in range(start, end, _TOGETHER):
            others = torch.stack([samples[other] for other in pairs[at : min(at + _TOGETHER, end), 1]]).float()
            scores[at : at + len(others)] = agreement(samples[first].float(), others)
    return scores


def _share(pairs: np.ndarray, likeness: np.ndarray, images: int, neighbors: int) -> list[int]:
    """Choose pairs (rows, sorted): in ``neighbors`` rounds each image takes the likeliest pair that is left to it."""
    ends = np.concatenate([pairs[:, 0], pairs[:, 1]])
    rows = np.tile(np.arange(len(pairs)), 2)
    order = np.lexsort([rows, -np.tile(likeness, 2), ends])
    starts = np.searchsorted(ends[order], np.arange(images + 1)).tolist()
    ranked, chosen = rows[order].tolist(), bytearray(len(pairs))
    place = starts[:-1]
    for _ in range(neighbors):
        for image, end in enumerate(starts[1:]):
            while place[image] < end and chosen[ranked[place[image]]]:
                place[image] += 1
            if place[image] < end:
                chosen[ranked[place[image]]] = 1
    return np.flatnonzero(np.frombuffer(chosen, np.uint8)).tolist()


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
