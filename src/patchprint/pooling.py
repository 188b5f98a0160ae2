"""One vector for a whole image, pooled from its local descriptors, and the pairs of images that look alike by it.

The vector is a VLAD (Jegou et al. 2010): descriptors are compared with a few centers, and what is kept for each center is the
sum of how its descriptors deviate from it. The centers are learned on the images at hand, so that it works for any descriptor
and nothing has to be fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.distances import as_vectors, nearest

CENTERS = 64
NEIGHBORS = 30  # images that each one is paired with
_SAMPLE = 50_000  # descriptors that the centers are learned from
_ROUNDS = 15  # of k-means; more change the pairs no further

# Descriptors (N, D) of an image by its name: floats, or uint8 packed bits. Asked for one image at a time.
Read = Callable[[str], Tensor]


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Centers of descriptors.

    Shape:
        centers (C, D) float32.
    """

    centers: Tensor

    @staticmethod
    def learn(sample: Tensor, centers: int = CENTERS, seed: int = 0) -> Vocabulary:
        """The k-means centers of a sample of descriptors, (N, D); fewer where there are fewer descriptors."""
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
        """The vector of one image.

        Shape:
            (N, D) -> (C * D,) float32 of unit length; zero where there are no descriptors.
        """
        values = as_vectors(descriptors)
        _, index = nearest(values, self.centers)
        total = torch.zeros_like(self.centers).index_add_(0, index[:, 0], values - self.centers[index[:, 0]])
        # Each center counts alike (Arandjelovic and Zisserman 2013), or one repeated window would decide.
        return F.normalize(F.normalize(total, dim=1).flatten(), dim=0)


def learn_vocabulary(names: Sequence[str], read: Read, seed: int = 0) -> Vocabulary:
    """A vocabulary from the same number of descriptors of each image."""
    generator = torch.Generator().manual_seed(seed)
    share = max(1, _SAMPLE // max(1, len(names)))
    parts = []
    for name in names:
        found = read(name)
        parts.append(found[torch.randperm(len(found), generator=generator)[:share]])
    return Vocabulary.learn(torch.cat(parts), seed=seed)


def pool_images(names: Sequence[str], read: Read, vocabulary: Vocabulary) -> Tensor:
    """Vectors of images, (I, C * D)."""
    return torch.stack([vocabulary.pool(read(name)) for name in names])


def similar_pairs(names: Sequence[str], read: Read, neighbors: int = NEIGHBORS, seed: int = 0) -> list[tuple[str, str]]:
    """Each image with the ``neighbors`` that look most like it; every pair once, in the order of ``names``."""
    vectors = pool_images(names, read, learn_vocabulary(names, read, seed))
    # Nearest of all is the image itself, unless another has the same vector.
    _, index = nearest(vectors, vectors, min(neighbors + 1, len(names)))
    pairs = set()
    for image, found in enumerate(index.tolist()):
        others = [other for other in found if other != image][:neighbors]
        pairs |= {(min(image, other), max(image, other)) for other in others}
    return [(names[first], names[second]) for first, second in sorted(pairs)]
