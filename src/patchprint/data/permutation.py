"""Random permutation with O(1) random access (Feistel network); no index is stored.

Training on N points needs a new order each epoch. Sorting N random numbers would have to happen on the host's command or
at every step; here the thing at place i of an order is computed from the key alone, on the device, in a few additions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from patchprint.common import rng

_ROUNDS = 6


def grid_of(count: int) -> tuple[int, int]:
    """Return sides a, b with a * b <= ``count`` that leave out as little as possible (usually nothing)."""
    root = max(1, math.isqrt(count))
    side = min(range(root, root // 2, -1), key=lambda a: count % a)
    return side, count // side


def permuted(key: Tensor, place: Tensor, count: Tensor | int, grid: tuple[Tensor | int, Tensor | int]) -> Tensor:
    """Return the elements at ``place`` of the permutation of range(count) given by ``key``.

    A place (l, r) on the a x b grid goes through rounds that add a hash of one coordinate to the other, each of which can
    be undone, so the whole is one-to-one (a Feistel network). The few numbers beyond a * b that cannot be reached are other
    ones for every key, since the result is turned by a random amount. Places must be below a * b.

    Shape:
        place (...) int64 -> (...) int64; ``count`` and ``grid`` may be tensors that broadcast to it.
    """
    a, b = grid
    left, right = place // b, place % b
    for number in range(_ROUNDS):
        if number % 2 == 0:
            left = torch.remainder(left + rng.fold_in(rng.fold_in(key, number), right), a)
        else:
            right = torch.remainder(right + rng.fold_in(rng.fold_in(key, number), left), b)
    turn = rng.fold_in(key, _ROUNDS)
    return torch.remainder(left * b + right + turn, count)
