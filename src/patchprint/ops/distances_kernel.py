"""Triton kernels for nearest neighbors, one or several: one pass over the distances, which are never written to memory.

A program multiplies some queries with some of the base. It keeps the two best of each query, and offers the best query of each
base descriptor to all programs; or it keeps several of each query. A second kernel merges what the programs found and computes
their distances anew, from differences, so that they are those of float32. Triton comes with PyTorch's builds for GPUs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_QUERIES, _BASE = 64, 64  # rows of each that are multiplied at a time
_WIDTH = 64  # of their components
_PROGRAMS = 528  # that keep a large GPU busy
_WARPS = 4
_EXACT_IN_TF32 = (torch.uint8, torch.int8, torch.float16)  # whose values have at most ten bits


@triton.jit
def _part(source, row, first, dim, exists, WIDTH: tl.constexpr, IS_BITS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Some components of rows as float32, from ``first`` on; signs of packed bits, zeros beyond the last."""
    number = first + tl.arange(0, WIDTH)
    exists = exists[:, None] & (number < dim)[None, :]
    if IS_BITS:
        packed = tl.load(source + row.to(tl.int64)[:, None] * (dim // 8) + (number // 8)[None, :], exists, 0).to(
            tl.int32
        )
        signs = ((packed >> (7 - number % 8)[None, :]) & 1) * 2 - 1
        return tl.where(exists, signs.to(tl.float32), 0.0)
    return tl.load(source + row.to(tl.int64)[:, None] * dim + number[None, :], exists, 0.0).to(tl.float32)


@triton.jit
def _packed(score, index):  # type: ignore[no-untyped-def]
    """Score and index as one integer: larger where the score is, and among equal scores where the index is smaller."""
    bits = score.to(tl.int32, bitcast=True)
    ordered = tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF)
    return (ordered.to(tl.int64) << 32) | (0xFFFFFFFF - index.to(tl.int64))


@triton.jit
def _best_kernel(  # type: ignore[no-untyped-def]
    queries, base, found, back, count, total, dim, columns,
    WIDTH: tl.constexpr, IS_BITS: tl.constexpr, QUERIES: tl.constexpr, BASE: tl.constexpr, BOTH_WAYS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    is_query = row < count
    own = tl.zeros([QUERIES], tl.float32)  # half of the squared length
    for part in range(0, dim, WIDTH):
        asked = _part(queries, row, part, dim, is_query, WIDTH, IS_BITS)
        own += tl.sum(asked * asked, 1) / 2
    is_query &= own < float("inf")  # nobody is near to NaN
    nothing = tl.full([QUERIES], -0x7FFFFFFFFFFFFFFF, tl.int64)
    first, second = nothing, nothing
    begin = tl.program_id(1) * columns
    for start in range(begin, tl.minimum(begin + columns, total), BASE):
        column = start + tl.arange(0, BASE)
        is_base = column < total
        half, product = tl.zeros([BASE], tl.float32), tl.zeros([QUERIES, BASE], tl.float32)
        for part in range(0, dim, WIDTH):
            asked = _part(queries, row, part, dim, row < count, WIDTH, IS_BITS)
            other = _part(base, column, part, dim, column < total, WIDTH, IS_BITS)
            half += tl.sum(other * other, 1) / 2
            product = tl.dot(asked, tl.trans(other), product, input_precision=PRECISION)
        is_base &= half < float("inf")
        usable = is_query[:, None] & is_base[None, :]
        score = tl.where(usable, product - half[None, :], -float("inf"))
        best, place = tl.max(score, 1), tl.argmax(score, 1)
        rest = tl.where(tl.arange(0, BASE)[None, :] == place[:, None], -float("inf"), score)
        next_best, next_place = tl.max(rest, 1), tl.argmax(rest, 1)
        # The two best of the four: those from before, and those of this block.
        new = tl.where(best > -float("inf"), _packed(best, start + place), nothing)
        next_new = tl.where(next_best > -float("inf"), _packed(next_best, start + next_place), nothing)
        second = tl.maximum(tl.minimum(first, new), tl.maximum(second, next_new))
        first = tl.maximum(first, new)
        if BOTH_WAYS:
            score = tl.where(usable, product - own[:, None], -float("inf"))
            best, place = tl.max(score, 0), tl.argmax(score, 0)
            offered = _packed(best, tl.program_id(0) * QUERIES + place)
            tl.atomic_max(back + column, offered, best > -float("inf"))
    place = found + (row.to(tl.int64) * tl.num_programs(1) + tl.program_id(1)) * 2
    tl.store(place, first, row < count)
    tl.store(place + 1, second, row < count)


@triton.jit
def _compared(queries, base, row, key, dim, WIDTH: tl.constexpr, IS_BITS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Distance of a query to the descriptor of a key, and its index; infinity and -1 where there is none."""
    exists = key > -0x7FFFFFFFFFFFFFFF
    index = tl.where(exists, 0xFFFFFFFF - (key & 0xFFFFFFFF), 0)
    one = tl.zeros([1], tl.int64)
    squared = 0.0
    for part in range(0, dim, WIDTH):
        asked = _part(queries, one + row, part, dim, one == 0, WIDTH, IS_BITS)
        other = _part(base, one + index, part, dim, one == 0, WIDTH, IS_BITS)
        squared += tl.sum(tl.sum((asked - other) * (asked - other), 1), 0)
    distance = squared / 4 if IS_BITS else tl.sqrt(squared)  # two signs that differ are 2 apart
    return tl.where(exists, distance, float("inf")), tl.where(exists, index, -1)


@triton.jit
def _merging_kernel(  # type: ignore[no-untyped-def]
    queries, base, found, out, dim, splits, WIDTH: tl.constexpr, IS_BITS: tl.constexpr, SPLITS: tl.constexpr
):
    row = tl.program_id(0)
    number = tl.arange(0, SPLITS)
    keys = tl.load(found + row.to(tl.int64) * splits * 2 + number, number < 2 * splits, -0x7FFFFFFFFFFFFFFF)
    best = tl.max(keys, 0)
    next_best = tl.max(tl.where(keys == best, -0x7FFFFFFFFFFFFFFF, keys), 0)
    first, index = _compared(queries, base, row, best, dim, WIDTH, IS_BITS)
    second, next_index = _compared(queries, base, row, next_best, dim, WIDTH, IS_BITS)
    is_swapped = second < first
    near, far = tl.where(is_swapped, second, first), tl.where(is_swapped, first, second)
    which, other = tl.where(is_swapped, next_index, index), tl.where(is_swapped, index, next_index)
    near_bits, far_bits = near.to(tl.int32, bitcast=True).to(tl.int64), far.to(tl.int32, bitcast=True).to(tl.int64)
    tl.store(out + 2 * row, (near_bits << 32) | (which & 0xFFFFFFFF))
    tl.store(out + 2 * row + 1, (far_bits << 32) | (other & 0xFFFFFFFF))


@triton.jit(do_not_specialize=["count", "total", "columns"])
def _several_kernel(  # type: ignore[no-untyped-def]
    queries, base, found, count, total, dim, columns,
    WIDTH: tl.constexpr, IS_BITS: tl.constexpr, QUERIES: tl.constexpr, BASE: tl.constexpr, KEPT: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    own = tl.zeros([QUERIES], tl.float32)
    for part in range(0, dim, WIDTH):
        asked = _part(queries, row, part, dim, row < count, WIDTH, IS_BITS)
        own += tl.sum(asked * asked, 1)
    is_query = (row < count) & (own < float("inf"))
    slot = tl.arange(0, KEPT)
    best = tl.zeros([QUERIES, KEPT], tl.int64) - 0x7FFFFFFFFFFFFFFF + slot[None, :]  # none; they differ
    worst = tl.min(best, 1)
    begin = tl.program_id(1) * columns
    for start in range(begin, tl.minimum(begin + columns, total), BASE):
        column = start + tl.arange(0, BASE)
        half, product = tl.zeros([BASE], tl.float32), tl.zeros([QUERIES, BASE], tl.float32)
        for part in range(0, dim, WIDTH):
            asked = _part(queries, row, part, dim, row < count, WIDTH, IS_BITS)
            other = _part(base, column, part, dim, column < total, WIDTH, IS_BITS)
            half += tl.sum(other * other, 1) / 2
            product = tl.dot(asked, tl.trans(other), product, input_precision=PRECISION)
        usable = is_query[:, None] & ((column < total) & (half < float("inf")))[None, :]
        score = tl.where(usable, product - half[None, :], -float("inf"))
        top, place = tl.max(score, 1, return_indices=True)
        new = tl.where(top > -float("inf"), _packed(top, start + place), -0x7FFFFFFFFFFFFFFF)
        while tl.max((new > worst).to(tl.int32), 0) > 0:  # most blocks have few that are better
            is_replaced = (best == worst[:, None]) & (new > worst)[:, None]
            best = tl.where(is_replaced, new[:, None], best)
            worst = tl.min(best, 1)
            score = tl.where(tl.arange(0, BASE)[None, :] == place[:, None], -float("inf"), score)
            top, place = tl.max(score, 1, return_indices=True)
            new = tl.where(top > -float("inf"), _packed(top, start + place), -0x7FFFFFFFFFFFFFFF)
    place = (row.to(tl.int64) * tl.num_programs(1) + tl.program_id(1)) * KEPT
    tl.store(found + place[:, None] + slot[None, :], best, (row < count)[:, None])


@triton.jit(do_not_specialize=["splits", "shift"])
def _several_merging_kernel(  # type: ignore[no-untyped-def]
    queries, base, found, distance, index, dim, splits, wanted, shift,
    WIDTH: tl.constexpr, IS_BITS: tl.constexpr, KEPT: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    row, slot = tl.program_id(0), tl.arange(0, KEPT)
    number = tl.arange(0, SPLITS)
    keys = tl.load(found + row.to(tl.int64) * splits * KEPT + number, number < splits * KEPT, -0x7FFFFFFFFFFFFFFF)
    chosen = tl.zeros([KEPT], tl.int64)
    for each in range(KEPT):
        best = tl.max(keys, 0)
        chosen = tl.where(slot == each, best, chosen)
        keys = tl.where(keys == best, -0x7FFFFFFFFFFFFFFF, keys)
    exists = chosen >= -0x7FFFFFFFFFFFFFFF + KEPT
    place = tl.where(exists, 0xFFFFFFFF - (chosen & 0xFFFFFFFF), 0)
    squared = tl.zeros([KEPT], tl.float32)
    for part in range(0, dim, WIDTH):
        asked = _part(queries, row + slot * 0, part, dim, slot >= 0, WIDTH, IS_BITS)
        other = _part(base, place, part, dim, exists, WIDTH, IS_BITS)
        squared += tl.sum((asked - other) * (asked - other), 1)
    far = tl.where(exists, squared / 4 if IS_BITS else tl.sqrt(squared), float("inf"))
    key = (far.to(tl.int32, bitcast=True).to(tl.int64) << 32) | tl.where(exists, place, 0x7FFFFF00 + slot)
    rank = tl.sum((key[None, :] < key[:, None]).to(tl.int32), 1)
    target = row.to(tl.int64) * wanted + rank
    tl.store(distance + target, far, rank < wanted)
    tl.store(index + target, tl.where(exists, place + shift, -1), rank < wanted)


def several_nearest(queries: Tensor, base: Tensor, distance: Tensor, index: Tensor, shift: int = 0) -> None:
    """Write the nearest base descriptors of each query in ascending order; infinity and -1 where there are fewer.

    Args:
        shift: what is added to an index.

    Shape:
        queries (N, D), base (M, D) of one type, packed bits or numbers; N and M at least 1; distance (N, k) float32 and index
        (N, k) of integers are written.
    """
    queries, base = queries.contiguous(), base.contiguous()
    is_bits = queries.dtype == torch.uint8
    count, total, dim = len(queries), len(base), queries.shape[1] * (8 if is_bits else 1)
    kept = triton.next_power_of_2(index.shape[1])
    blocks = triton.cdiv(count, _QUERIES)
    columns = triton.cdiv(triton.cdiv(total, triton.cdiv(_PROGRAMS, blocks)), _BASE) * _BASE
    splits = triton.cdiv(total, columns)
    found = torch.empty(count, splits, kept, dtype=torch.int64, device=queries.device)
    shared = {"WIDTH": min(max(16, triton.next_power_of_2(dim)), _WIDTH), "IS_BITS": is_bits, "KEPT": kept}
    _several_kernel[(blocks, splits)](
        queries, base, found, count, total, dim, columns, **shared, QUERIES=_QUERIES, BASE=_BASE,
        PRECISION="tf32" if queries.dtype in _EXACT_IN_TF32 else "tf32x3", num_warps=_WARPS,
    )  # fmt: skip
    _several_merging_kernel[(count,)](
        queries, base, found, distance, index, dim, splits, index.shape[1], shift, **shared,
        SPLITS=triton.next_power_of_2(splits * kept), num_warps=1,
    )  # fmt: skip


def two_nearest(queries: Tensor, base: Tensor, both_ways: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:
    """Find the two base descriptors nearest to each query and, with ``both_ways``, the query nearest to each of the base.

    Shape:
        queries (N, D), base (M, D) of one type, packed bits or numbers; N and M at least 1
        -> distance (N, 2) float32, index (N, 2) int64 and the nearest query (M,) int64 or None, all on the CPU;
        infinity and -1 where there is none.
    """
    queries, base = queries.contiguous(), base.contiguous()
    is_bits = queries.dtype == torch.uint8
    count, total, dim = len(queries), len(base), queries.shape[1] * (8 if is_bits else 1)
    blocks = triton.cdiv(count, _QUERIES)
    splits = min(triton.cdiv(total, _BASE), triton.cdiv(_PROGRAMS, blocks))
    columns = triton.cdiv(triton.cdiv(total, splits), _BASE) * _BASE
    splits = triton.cdiv(total, columns)
    found = torch.empty(count, splits, 2, dtype=torch.int64, device=queries.device)
    # In one tensor, since each copy from a GPU takes its time. The lowest number of 64 bits stands for none.
    out = torch.full((2 * count + total * both_ways,), -(1 << 63), dtype=torch.int64, device=queries.device)
    back = out[2 * count :]
    shared = {"WIDTH": min(max(16, triton.next_power_of_2(dim)), _WIDTH), "IS_BITS": is_bits}
    _best_kernel[(blocks, splits)](
        queries, base, found, back, count, total, dim, columns, **shared, QUERIES=_QUERIES, BASE=_BASE, BOTH_WAYS=both_ways,
        PRECISION="tf32" if queries.dtype in _EXACT_IN_TF32 else "tf32x3", num_warps=_WARPS,
    )  # fmt: skip
    _merging_kernel[(count,)](
        queries, base, found, out, dim, splits, **shared, SPLITS=triton.next_power_of_2(2 * splits), num_warps=1
    )
    halves = out.cpu().view(torch.int32).view(-1, 2)  # the lower half of a number comes first
    distance = halves[: 2 * count, 1].view(torch.float32).view(count, 2)
    index = halves[: 2 * count, 0].long().view(count, 2)
    return distance, index, ~halves[2 * count :, 0].long() if both_ways else None
