"""Triton kernel for the two nearest neighbors, in half precision.

Each program compares some queries with all of ``base`` and keeps the two best in registers, so that the similarity matrix is
never written to memory. Half precision may swap neighbors whose distances agree to 0.001; callers compute distances again in
float32. Triton comes with PyTorch's builds for GPUs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_QUERIES, _BASE = 64, 128  # rows of each that are multiplied at a time


@triton.jit
def _two_best_kernel(  # type: ignore[no-untyped-def]
    queries, base, half_norm, found, count, total, DIM: tl.constexpr, QUERIES: tl.constexpr, BASE: tl.constexpr
):
    row = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    number = tl.arange(0, DIM)
    asked = tl.load(queries + row[:, None] * DIM + number[None, :], (row < count)[:, None], 0.0)
    first, second = tl.full([QUERIES], -float("inf"), tl.float32), tl.full([QUERIES], -float("inf"), tl.float32)
    which_first, which_second = tl.zeros([QUERIES], tl.int32), tl.zeros([QUERIES], tl.int32)
    for start in range(0, total, BASE):
        column = start + tl.arange(0, BASE)
        exists = column < total
        other = tl.load(base + column[:, None] * DIM + number[None, :], exists[:, None], 0.0)
        score = tl.dot(asked, tl.trans(other)) - tl.load(half_norm + column, exists, 0.0)[None, :]
        score = tl.where(exists[None, :], score, -float("inf"))
        best, place = tl.max(score, 1), tl.argmax(score, 1)
        rest = tl.where(column[None, :] - start == place[:, None], -float("inf"), score)
        next_best, next_place = tl.max(rest, 1), tl.argmax(rest, 1)
        # The two best of the four: those from before, and those of this block.
        is_new = best > first
        loser, which_loser = tl.where(is_new, first, best), tl.where(is_new, which_first, start + place)
        rival, which_rival = tl.where(is_new, next_best, second), tl.where(is_new, start + next_place, which_second)
        first, which_first = tl.where(is_new, best, first), tl.where(is_new, start + place, which_first)
        second = tl.maximum(loser, rival)
        which_second = tl.where(loser >= rival, which_loser, which_rival)
    tl.store(found + row * 2, which_first, row < count)
    tl.store(found + row * 2 + 1, which_second, row < count)


def two_nearest(queries: Tensor, base: Tensor) -> Tensor:
    """Return the indices of the two base vectors nearest to each query.

    Shape:
        queries (N, D), base (M, D), M at least 2 -> (N, 2) int64. D is padded to a power of two.
    """
    largest = torch.maximum(queries.abs().amax(), base.abs().amax()).clamp(min=1e-12)
    dim = max(16, triton.next_power_of_2(queries.shape[1]))
    # Scaled to [-1, 1], so that no product overflows half precision.
    asked, others = (
        torch.nn.functional.pad(each / largest, (0, dim - each.shape[1])).half().contiguous()
        for each in (queries, base)
    )
    half_norm = others.float().square().sum(1) / 2
    found = torch.empty(len(queries), 2, dtype=torch.int32, device=queries.device)
    _two_best_kernel[(triton.cdiv(len(queries), _QUERIES),)](
        asked, others, half_norm, found, len(queries), len(base), DIM=dim, QUERIES=_QUERIES, BASE=_BASE
    )
    return found.long()
