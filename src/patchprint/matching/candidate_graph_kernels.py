"""Triton kernels for the graph matcher: a pair of images in about twenty launches, none of which waits for the host.

Candidates, neighbors, edges, rounds of messages, matches and their errors are those of `candidate_graph` and `local_agreement`
up to rounding. Messages stay in registers, and nothing is as large as the product of the numbers of keypoints. Tables of
candidates have one column for each candidate, so that programs read them in order. Triton comes with PyTorch's builds for GPUs.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from patchprint.matching.candidate_graph import (
    EDGE_FEATURES,
    LEAST_WEIGHT,
    LENGTHS,
    NODE_FEATURES,
    PLACE,
    SAME_PLACE,
    ZOOM,
    Frames,
    GraphNetwork,
    GraphOptions,
    Round,
)
from patchprint.matching.local_agreement import FEWEST, NEIGHBORS, NOISE, PER_PIXEL, RIDGE, STEPS
from patchprint.ops.distances_kernel import several_nearest

# Kernels are compiled once for all numbers of keypoints: nothing is made of what divides them.
_COLUMNS = 256  # keypoints that a program compares with its own at a time
_EDGES, _CANDIDATES = 32, 32  # candidates of a program that makes edges, and of one that hears messages
_ROWS = 32  # keypoints of a program that chooses matches
_MATCHES = 16  # of a program that computes their errors
_COUNTED = 4096  # keypoints that a program counts at a time


@triton.jit(do_not_specialize=["xy", "scale", "count", "shift"])
def _places_kernel(  # type: ignore[no-untyped-def]
    xy, scale, out, count, wanted, same_place, shift, KEPT: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0)
    x, y = tl.load(xy + 2 * row), tl.load(xy + 2 * row + 1)
    nearest = same_place * tl.load(scale + row)
    best = tl.zeros([KEPT], tl.int64) + 0x7F80000000000000 + tl.arange(0, KEPT)  # none; they differ
    worst = tl.max(best, 0)
    for start in range(0, count, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        to_x = tl.load(xy + 2 * column, column < count, float("inf")) - x
        to_y = tl.load(xy + 2 * column + 1, column < count, float("inf")) - y
        squared = to_x * to_x + to_y * to_y
        is_apart = (tl.sqrt(squared) > nearest) & (squared < float("inf"))
        key = (squared.to(tl.int32, bitcast=True).to(tl.int64) << 32) | column
        key = tl.where(is_apart, key, 0x7FFFFFFFFFFFFFFF)
        least = tl.min(key, 0)
        while least < worst:
            best = tl.where(best == worst, least, best)
            worst = tl.max(best, 0)
            key = tl.where(key == least, 0x7FFFFFFFFFFFFFFF, key)
            least = tl.min(key, 0)
    rank = tl.sum((best[None, :] < best[:, None]).to(tl.int32), 1)
    found = tl.where(best < 0x7F80000000000000, (best & 0xFFFFFFFF) + shift, -1)
    tl.store(out + row.to(tl.int64) * wanted + rank, found, rank < wanted)


def nearest_places(xy: Tensor, scale: Tensor, neighbor: Tensor, shift: int = 0) -> None:
    """Write the nearest keypoints at other places into ``neighbor`` (N, E), plus a shift; -1 where there are fewer.

    Shape:
        xy (N, 2), scale (N,).
    """
    kept = triton.next_power_of_2(neighbor.shape[1])
    if len(xy):
        _places_kernel[(len(xy),)](
            xy.contiguous(), scale.contiguous(), neighbor, len(xy), neighbor.shape[1], SAME_PLACE, shift, KEPT=kept,
            COLUMNS=_COLUMNS, num_warps=1,
        )  # fmt: skip


@triton.jit(do_not_specialize=["first_count", "total", "lengths"])
def _image_kernel(  # type: ignore[no-untyped-def]
    index, scale, descriptors, out, first_count, total, dim, lengths,
    K: tl.constexpr, WIDTH: tl.constexpr, IS_BITS: tl.constexpr, BLOCK: tl.constexpr, LENGTHS: tl.constexpr,
):  # fmt: skip
    """Write the median change of scale of an image, as a factor, and the mean length of descriptors."""
    image = tl.program_id(0)
    first, last = tl.where(image == 0, 0, first_count), tl.where(image == 0, first_count, total)
    known = 0
    for start in range(first, last, BLOCK):
        row = start + tl.arange(0, BLOCK)
        known += tl.sum((tl.load(index + row * K, row < last, -1) >= 0).to(tl.int32), 0)
    middle = tl.maximum(known - 1, 0) // 2
    # The bits of positive floats are ordered as these are; those of the median are found from the highest on.
    median = 0
    for bit in range(31):
        tried, smaller = median | (0x40000000 >> bit), 0
        for start in range(first, last, BLOCK):
            row = start + tl.arange(0, BLOCK)
            column = tl.load(index + row * K, row < last, -1)
            ratio = tl.load(scale + tl.maximum(column, 0)) / tl.load(scale + row, row < last, 1.0)
            bits = tl.maximum(ratio, 1e-9).to(tl.int32, bitcast=True)
            smaller += tl.sum(((column >= 0) & (bits < tried)).to(tl.int32), 0)
        median = tl.where(smaller <= middle, tried, median)
    tl.store(out + 2 * image, tl.cast(median, tl.float32, bitcast=True))
    if not IS_BITS:
        length, usable = 0.0, 0.0
        for start in range(0, lengths, LENGTHS):
            row = start + tl.arange(0, LENGTHS)
            squared = tl.zeros([LENGTHS], tl.float32)
            for part in range(0, dim, WIDTH):
                number = part + tl.arange(0, WIDTH)
                place = descriptors + row.to(tl.int64)[:, None] * dim + number[None, :]
                value = tl.load(place, (row < lengths)[:, None] & (number < dim)[None, :], 0.0).to(tl.float32)
                squared += tl.sum(value * value, 1)
            is_usable = (row < lengths) & (squared < float("inf"))
            length += tl.sum(tl.where(is_usable, tl.sqrt(squared), 0.0), 0)
            usable += tl.sum(is_usable.to(tl.float32), 0)
        tl.store(out + 2 * image + 1, length / tl.maximum(usable, 1.0))


@triton.jit
def _unit(distance, length, IS_BITS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Convert distances as ``candidate_graph._unit``; of bits ``length`` is their number."""
    if IS_BITS:
        return 2 * tl.sqrt(tl.minimum(distance / length, 1.0))
    return tl.minimum(tl.where(distance < float("inf"), distance / tl.maximum(length, 1e-9), 2.0), 2.0)


@triton.jit(do_not_specialize=["count", "first_count"])
def _edges_kernel(  # type: ignore[no-untyped-def]
    xy, scale, angle, index, distance, neighbor, of_image, node, source, edge, count, first_count, bits, place, zoom,
    K: tl.constexpr, EDGES: tl.constexpr, IS_BITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write what is told of candidates, and the edges to them, as ``node_features`` and ``fitting_edges``."""
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = number < count
    candidate = tl.where(exists, number, 0)
    row, rank = candidate // K, candidate % K
    own = tl.load(index + candidate)
    known = own >= 0
    own = tl.maximum(own, 0)
    image = of_image + tl.where(row < first_count, 0, 2)
    length = bits if IS_BITS else tl.load(image + 1)
    far = _unit(tl.load(distance + candidate), length, IS_BITS)
    rival = _unit(tl.load(distance + row * K + tl.where(rank == 0, 1, 0)), length, IS_BITS)
    is_best = tl.load(index + own * K) == row
    their_rival = _unit(tl.load(distance + own * K + tl.where(is_best, 1, 0)), length, IS_BITS)
    own_scale, row_scale = tl.load(scale + own), tl.load(scale + row)
    factor = tl.maximum(own_scale / row_scale, 1e-9)
    log_factor = tl.log(factor)
    from_median = tl.where(known, log_factor - tl.log(tl.maximum(tl.load(image), 1e-9)), 0.0)
    tl.store(node + candidate, tl.where(known, far, 0.0), exists)
    tl.store(node + count + candidate, tl.where(known, 1 - far * far / 2, 0.0), exists)
    to_own, to_their = far / tl.maximum(rival, 1e-6), far / tl.maximum(their_rival, 1e-6)
    tl.store(node + 2 * count + candidate, tl.where(known, tl.minimum(to_own, 4.0), 0.0), exists)
    tl.store(node + 3 * count + candidate, tl.where(known, tl.minimum(to_their, 4.0), 0.0), exists)
    tl.store(node + 4 * count + candidate, tl.where(known & is_best, 1.0, 0.0), exists)
    tl.store(node + 5 * count + candidate, tl.where(known & (rank == 0), 1.0, 0.0), exists)
    tl.store(node + 6 * count + candidate, tl.where(known, rank.to(tl.float32) / K, 0.0), exists)
    tl.store(node + 7 * count + candidate, tl.minimum(tl.abs(from_median), 4.0), exists)

    which = tl.arange(0, EDGES)
    other = tl.load(neighbor + row[:, None] * EDGES + which[None, :])
    is_there = (other >= 0) & known[:, None]
    other = tl.maximum(other, 0)
    x = tl.load(xy + 2 * other) - tl.load(xy + 2 * row)[:, None]
    y = tl.load(xy + 2 * other + 1) - tl.load(xy + 2 * row + 1)[:, None]
    away = tl.maximum(tl.sqrt(x * x + y * y), 1e-6)
    turn = tl.load(angle + own) - tl.load(angle + row)
    cos, sin = (factor * tl.cos(turn))[:, None], (factor * tl.sin(turn))[:, None]
    expected_x = tl.load(xy + 2 * own)[:, None] + cos * x - sin * y
    expected_y = tl.load(xy + 2 * own + 1)[:, None] + sin * x + cos * y
    size = factor[:, None] * away
    size = size * size
    other_scale, other_angle = tl.load(scale + other), tl.load(angle + other)
    least = tl.full([BLOCK, EDGES], float("inf"), tl.float32)
    chosen = tl.zeros([BLOCK, EDGES], tl.int32)
    chosen_off, chosen_change, twist = least, tl.zeros_like(least), tl.zeros_like(least)
    for each in range(K):
        theirs = tl.load(index + other * K + each)
        usable = is_there & (theirs >= 0)
        theirs = tl.maximum(theirs, 0)
        off_x, off_y = tl.load(xy + 2 * theirs) - expected_x, tl.load(xy + 2 * theirs + 1) - expected_y
        off = (off_x * off_x + off_y * off_y) / size
        change = tl.log(tl.maximum(tl.load(scale + theirs) / other_scale, 1e-9)) - log_factor[:, None]
        turned = tl.load(angle + theirs) - other_angle - turn[:, None]
        cost = off / (place * place) + change * change / (zoom * zoom)
        cost = tl.where(usable, cost - tl.log(tl.maximum(0.5 + 0.5 * tl.cos(turned), 1e-6)), 1e9)
        is_better = cost < least
        least, chosen = tl.where(is_better, cost, least), tl.where(is_better, each, chosen)
        chosen_off, chosen_change = tl.where(is_better, off, chosen_off), tl.where(is_better, change, chosen_change)
        twist = tl.where(is_better, turned, twist)
    weight = tl.where(least < 1e9, tl.exp(-tl.minimum(least, 60.0)), 0.0)
    tl.store(node + 8 * count + candidate, tl.log(1 + tl.sum(weight, 1)), exists)
    tl.store(node + 9 * count + candidate, tl.max(weight, 1), exists)
    target, plane = which[None, :] * count + candidate[:, None], EDGES * count
    exists = exists[:, None] & (which >= 0)[None, :]
    tl.store(source + target, other * K + chosen, exists)
    tl.store(edge + target, weight, exists)
    tl.store(edge + plane + target, tl.minimum(tl.sqrt(chosen_off), 4.0), exists)
    tl.store(edge + 2 * plane + target, tl.minimum(tl.maximum(chosen_change, -3.0), 3.0), exists)
    tl.store(edge + 3 * plane + target, tl.cos(twist), exists)
    tl.store(edge + 4 * plane + target, tl.sin(twist), exists)
    tl.store(edge + 5 * plane + target, tl.log(1 + away / row_scale[:, None]), exists)


@triton.jit
def _times(x, weight, outputs, inputs, STRIDE: tl.constexpr, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """Multiply rows by a square part of the weights of a linear layer."""
    number = tl.arange(0, WIDTH)
    part = tl.load(weight + (outputs + number)[None, :] * STRIDE + (inputs + number)[:, None])
    return tl.dot(x, part, input_precision="tf32x3")


@triton.jit
def _row(values, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.load(values + tl.arange(0, WIDTH))[None, :]


@triton.jit
def _normed(x, weight, bias, eps, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    x -= (tl.sum(x, 1) / WIDTH)[:, None]
    x /= tl.sqrt(tl.sum(x * x, 1) / WIDTH + eps)[:, None]
    return x * _row(weight, WIDTH) + _row(bias, WIDTH)


@triton.jit
def _silu(x):  # type: ignore[no-untyped-def]
    return x / (1 + tl.exp(-x))


@triton.jit(do_not_specialize=["count"])
def _starting_kernel(  # type: ignore[no-untyped-def]
    node, state, told, count, eps, first, first_bias, second, second_bias, norm, norm_bias, next, next_bias,
    FEATURES: tl.constexpr, PADDED: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the first state of candidates, and what they tell in the first round."""
    candidate = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = (candidate < count)[:, None]
    number, feature = tl.arange(0, WIDTH)[None, :], tl.arange(0, PADDED)
    known = feature < FEATURES
    given = tl.load(node + feature[None, :] * count + candidate[:, None], exists & known[None, :], 0.0)
    weight = tl.load(first + number * FEATURES + feature[:, None], known[:, None], 0.0)
    hidden = _silu(tl.dot(given, weight, input_precision="tf32x3") + _row(first_bias, WIDTH))
    value = _times(hidden, second, 0, 0, WIDTH, WIDTH) + _row(second_bias, WIDTH)
    place = candidate[:, None] * WIDTH + number
    tl.store(state + place, value, exists)
    value = _times(_normed(value, norm, norm_bias, eps, WIDTH), next, 0, 0, WIDTH, WIDTH) + _row(next_bias, WIDTH)
    tl.store(told + place, value, exists)


@triton.jit(do_not_specialize=["count"])
def _round_kernel(  # type: ignore[no-untyped-def]
    state, told, source, edge, index, next_state, next_told, logits, count, eps, least_weight,
    norm, norm_bias, asked, asked_bias, fits, fits_bias, mix, mix_bias, out, out_bias,
    next_norm, next_norm_bias, next, next_bias, last, last_bias,
    K: tl.constexpr, EDGES: tl.constexpr, FEATURES: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    IS_LAST: tl.constexpr,
):  # fmt: skip
    """Write the next state of candidates and what they tell in the next round, or after the last one the logits."""
    candidate = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = candidate < count
    number, wide = tl.arange(0, WIDTH)[None, :], 4 * WIDTH
    place = candidate[:, None] * WIDTH + number
    before = tl.load(state + place, exists[:, None], 0.0)
    normed = _normed(before, norm, norm_bias, eps, WIDTH)
    own = _times(normed, asked, 0, 0, WIDTH, WIDTH) + _row(asked_bias, WIDTH) + _row(fits_bias, WIDTH)
    total, most = tl.zeros([BLOCK, WIDTH], tl.float32), tl.full([BLOCK, WIDTH], -float("inf"), tl.float32)
    for each in range(EDGES):
        here = each * count + candidate
        weight = tl.load(edge + here, exists, 0.0)
        weight = tl.where(weight > least_weight, weight, 0.0)
        neighbor = tl.load(source + here, exists, 0)
        message = own + tl.load(told + neighbor[:, None] * WIDTH + number, (weight > 0)[:, None], 0.0)
        for feature in tl.static_range(FEATURES):
            fit = tl.load(edge + feature * EDGES * count + here, exists, 0.0)
            message += fit[:, None] * tl.load(fits + number * FEATURES + feature)
        message = _silu(message) * weight[:, None]
        total += message
        most = tl.maximum(most, message)
    total /= 4
    grouped = tl.reshape(normed, (BLOCK // K, K, WIDTH))
    others = tl.broadcast_to(tl.sum(grouped, 1)[:, None, :], (BLOCK // K, K, WIDTH))
    others = (tl.reshape(others, (BLOCK, WIDTH)) - normed) / (K - 1)
    value = _times(normed, mix, 0, 0, wide, WIDTH) + _times(total, mix, 0, WIDTH, wide, WIDTH)
    value += _times(most, mix, 0, 2 * WIDTH, wide, WIDTH) + _times(others, mix, 0, 3 * WIDTH, wide, WIDTH)
    gate = _times(normed, mix, WIDTH, 0, wide, WIDTH) + _times(total, mix, WIDTH, WIDTH, wide, WIDTH)
    gate += _times(most, mix, WIDTH, 2 * WIDTH, wide, WIDTH) + _times(others, mix, WIDTH, 3 * WIDTH, wide, WIDTH)
    value, gate = _silu(value + _row(mix_bias, WIDTH)), gate + _row(mix_bias + WIDTH, WIDTH)
    after = before + _times(value / (1 + tl.exp(-gate)), out, 0, 0, WIDTH, WIDTH) + _row(out_bias, WIDTH)
    telling = _times(_normed(after, next_norm, next_norm_bias, eps, WIDTH), next, 0, 0, WIDTH, WIDTH)
    telling += _row(next_bias, WIDTH)
    if IS_LAST:
        logit = tl.sum(_silu(telling) * _row(last, WIDTH), 1) + tl.load(last_bias)
        known = tl.load(index + candidate, exists, -1) >= 0
        tl.store(logits + candidate, tl.where(known, logit, -float("inf")), exists)
    else:
        tl.store(next_state + place, after, exists[:, None])
        tl.store(next_told + place, telling, exists[:, None])


@triton.jit
def _together(logits, index, row, exists, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """Logits of the candidates of rows in both directions, as ``candidate_graph.together``, and the candidates."""
    number = tl.arange(0, K)
    place = row[:, None] * K + number[None, :]
    column = tl.load(index + place, exists[:, None], -1)
    there = tl.load(logits + place, exists[:, None], -float("inf"))
    back = tl.maximum(column, 0)[:, :, None] * K + number[None, None, :]
    is_same = (tl.load(index + back) == row[:, None, None]) & (column >= 0)[:, :, None]
    theirs = tl.sum(tl.where(is_same, tl.load(logits + back), 0.0), 2)
    is_mutual = tl.max(is_same.to(tl.int32), 2) > 0
    return tl.where(is_mutual, (there + theirs) / 2, -float("inf")), column


@triton.jit(do_not_specialize=["count"])
def _matching_kernel(  # type: ignore[no-untyped-def]
    logits, index, distance, xy, scale, found, places, scales, count, threshold, K: tl.constexpr, BLOCK: tl.constexpr
):
    """Write the matches of the keypoints of the first image: other keypoint or -1, probability, distance; their places."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = row < count
    joint, column = _together(logits, index, row, exists, K)
    best, place = tl.max(joint, 1, return_indices=True)
    other = tl.sum(tl.where(tl.arange(0, K)[None, :] == place[:, None], column, 0), 1)
    kept = exists & (best > -float("inf"))
    other = tl.where(kept, other, 0)
    theirs, _ = _together(logits, index, other, kept, K)
    score = 1 / (1 + tl.exp(-best))
    kept = kept & (best == tl.max(theirs, 1)) & (score >= threshold)
    tl.store(found + row, tl.where(kept, other - count, -1), exists)
    score = tl.where(kept, score, 0.0)
    tl.store(found + count + row, score.to(tl.int32, bitcast=True), exists)
    far = tl.load(distance + row * K + place, kept, 0.0)
    tl.store(found + 2 * count + row, far.to(tl.int32, bitcast=True), exists)
    # Keypoints without a match lie nowhere: they are nobody's neighbors.
    for image in tl.static_range(2):
        which = row if image == 0 else other
        target = image * count + row
        tl.store(places + 2 * target, tl.load(xy + 2 * which, kept, float("inf")), exists)
        tl.store(places + 2 * target + 1, tl.load(xy + 2 * which + 1, kept, float("inf")), exists)
        tl.store(scales + target, tl.load(scale + which, kept, 1.0), exists)


@triton.jit
def _fitted(x, y, to_x, to_y, weight, ridge):  # type: ignore[no-untyped-def]
    """Fit an affine map as ``local_agreement._fit_affine``: its four factors, and where it maps the origin."""
    total = tl.maximum(tl.sum(weight, 1), 1e-9)
    middle_x, middle_y = tl.sum(weight * x, 1) / total, tl.sum(weight * y, 1) / total
    middle_to_x, middle_to_y = tl.sum(weight * to_x, 1) / total, tl.sum(weight * to_y, 1) / total
    x, y = x - middle_x[:, None], y - middle_y[:, None]
    to_x, to_y = to_x - middle_to_x[:, None], to_y - middle_to_y[:, None]
    xx, xy, yy = tl.sum(weight * x * x, 1) + ridge, tl.sum(weight * x * y, 1), tl.sum(weight * y * y, 1) + ridge
    factor = 1 / (xx * yy - xy * xy)
    x_to_x, y_to_x = tl.sum(weight * x * to_x, 1), tl.sum(weight * y * to_x, 1)
    x_to_y, y_to_y = tl.sum(weight * x * to_y, 1), tl.sum(weight * y * to_y, 1)
    a, b = (yy * x_to_x - xy * y_to_x) * factor, (xx * y_to_x - xy * x_to_x) * factor
    c, d = (yy * x_to_y - xy * y_to_y) * factor, (xx * y_to_y - xy * x_to_y) * factor
    return a, b, c, d, middle_to_x - middle_x * a - middle_y * b, middle_to_y - middle_x * c - middle_y * d


@triton.jit
def _offset(places, other, row, is_there):  # type: ignore[no-untyped-def]
    """Offsets in double precision to other places, or to the origin."""
    x = tl.load(places + 2 * other, is_there, 0.0).to(tl.float64)
    y = tl.load(places + 2 * other + 1, is_there, 0.0).to(tl.float64)
    from_x, from_y = tl.load(places + 2 * row).to(tl.float64), tl.load(places + 2 * row + 1).to(tl.float64)
    return x - from_x[:, None], y - from_y[:, None]


@triton.jit(do_not_specialize=["score", "out", "count"])
def _errors_kernel(  # type: ignore[no-untyped-def]
    places, neighbor, score, out, count, ridge, least_noise, per_pixel,
    EDGES: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the errors of matches, the smaller ones of both directions, as ``local_agreement.local_errors``."""
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    exists = number < count
    row = tl.where(exists, number, 0)
    error = tl.full([BLOCK], float("inf"), tl.float32)
    for direction in range(2):
        here, there = places + 2 * direction * count, places + 2 * (1 - direction) * count
        other = tl.load(neighbor + (direction * count + row)[:, None] * EDGES + tl.arange(0, EDGES)[None, :])
        is_there = other >= 0
        other = tl.maximum(other, 0)
        x, y = _offset(here, other, row, is_there)
        to_x, to_y = _offset(there, other, row, is_there)
        squared = tl.where(is_there, x * x + y * y, 0.0)
        reach = tl.maximum(tl.sqrt(tl.max(squared, 1)), 1e-6)
        x, y = x / reach[:, None], y / reach[:, None]
        near = tl.load(score + other).to(tl.float64) * tl.exp(-squared / (reach * reach)[:, None])
        near = tl.where(is_there, near, 0.0)
        weight, noise = near, tl.maximum(reach / 2, 4.0 * least_noise)
        a, b, c, d, at_x, at_y = _fitted(x, y, to_x, to_y, weight, ridge)
        for _ in range(STEPS):
            noise = tl.maximum(noise / 2, least_noise)
            off_x = a[:, None] * x + b[:, None] * y + at_x[:, None] - to_x
            off_y = c[:, None] * x + d[:, None] * y + at_y[:, None] - to_y
            trust = 1 + (off_x * off_x + off_y * off_y) / (noise * noise)[:, None]
            weight = near / (trust * trust)
            a, b, c, d, at_x, at_y = _fitted(x, y, to_x, to_y, weight, ridge)
        total = tl.maximum(tl.sum(weight, 1), 1e-9)
        spread = tl.sqrt(tl.sum(weight * (to_x * to_x + to_y * to_y), 1) / total)
        apart = tl.sqrt(at_x * at_x + at_y * at_y) / (1 + per_pixel * spread)
        error = tl.minimum(error, apart.to(tl.float32))
    tl.store(out + number, error, exists)


def supports(options: GraphOptions) -> bool:
    """Whether these kernels compute a network with such options."""
    sizes = (options.candidates, options.neighbors, options.width)
    default = GraphOptions(
        candidates=options.candidates, neighbors=options.neighbors, width=options.width, rounds=options.rounds
    )
    are_powers = all(math.log2(each).is_integer() for each in sizes)
    return options == default and are_powers and options.candidates <= _CANDIDATES and options.width >= 16


class PairTables:
    """Tables of the candidates of two images, C = (N + M) K in all, with a row for each feature.

    Shape:
        index (N + M, K) int32 among all keypoints, -1 where there is none; distance (N + M, K); node (F, C); source (E, C)
        int32, edge (G, E, C).
    """

    def __init__(self, a: Frames, b: Frames, options: GraphOptions) -> None:
        device, count, total, k = a.xy.device, len(a), len(a) + len(b), options.candidates
        self.xy, self.scale = torch.cat([a.xy, b.xy]), torch.cat([a.scale, b.scale])
        angle, descriptors = torch.cat([a.angle, b.angle]), torch.cat([a.descriptors, b.descriptors])
        self.index = torch.empty(total, k, dtype=torch.int32, device=device)
        self.distance = torch.empty(total, k, device=device)
        neighbor = torch.empty(total, options.neighbors, dtype=torch.int32, device=device)
        one, other = slice(count), slice(count, None)
        several_nearest(descriptors[one], descriptors[other], self.distance[one], self.index[one], count)
        several_nearest(descriptors[other], descriptors[one], self.distance[other], self.index[other])
        nearest_places(self.xy[one], self.scale[one], neighbor[one])
        nearest_places(self.xy[other], self.scale[other], neighbor[other], count)
        is_bits, dim = descriptors.dtype == torch.uint8, descriptors.shape[1]
        of_image = torch.empty(2, 2, device=device)
        _image_kernel[(2,)](
            self.index, self.scale, descriptors, of_image, count, total, dim, min(LENGTHS, total), K=k,
            WIDTH=min(triton.next_power_of_2(dim), 64), IS_BITS=is_bits, BLOCK=_COUNTED, LENGTHS=64, num_warps=8,
        )  # fmt: skip
        cells = total * k
        self.node = torch.empty(NODE_FEATURES, cells, device=device)
        self.source = torch.empty(options.neighbors, cells, dtype=torch.int32, device=device)
        self.edge = torch.empty(EDGE_FEATURES, options.neighbors, cells, device=device)
        _edges_kernel[(triton.cdiv(cells, _EDGES),)](
            self.xy, self.scale, angle, self.index, self.distance, neighbor, of_image, self.node, self.source, self.edge,
            cells, count, 8 * dim, PLACE, ZOOM, K=k, EDGES=options.neighbors, IS_BITS=is_bits, BLOCK=_EDGES,
        )  # fmt: skip


def logits(network: GraphNetwork, tables: PairTables) -> Tensor:
    """Compute the logits (N + M, K) of candidates; minus infinity where there is none."""
    cells, width, device = tables.index.numel(), network.options.width, tables.index.device
    grid = (triton.cdiv(cells, _CANDIDATES),)
    (state, told), (next_state, next_told) = torch.empty(2, 2, cells, width, device=device)
    found = torch.empty_like(tables.distance)
    layers: list[Round] = list(network.layers)  # type: ignore[arg-type]
    first, second, end = network.start[0], network.start[2], network.end
    _starting_kernel[grid](
        tables.node, state, told, cells, end[0].eps, *_parameters(first, second, layers[0].norm, layers[0].told),
        FEATURES=NODE_FEATURES, PADDED=max(16, triton.next_power_of_2(NODE_FEATURES)), WIDTH=width, BLOCK=_CANDIDATES,
    )  # fmt: skip
    for number, layer in enumerate(layers):
        is_last = number == len(layers) - 1
        following = (end[0], end[1]) if is_last else (layers[number + 1].norm, layers[number + 1].told)
        _round_kernel[grid](
            state, told, tables.source, tables.edge, tables.index, next_state, next_told, found, cells, end[0].eps,
            LEAST_WEIGHT, *_parameters(layer.norm, layer.asked, layer.fits, layer.mix, layer.out, *following, end[3]),
            K=network.options.candidates, EDGES=network.options.neighbors, FEATURES=EDGE_FEATURES, WIDTH=width,
            BLOCK=_CANDIDATES, IS_LAST=is_last,
        )  # fmt: skip
        (state, told), (next_state, next_told) = (next_state, next_told), (state, told)
    return found


def _parameters(*layers: nn.Module) -> list[Tensor]:
    return [parameter for layer in layers for parameter in (layer.weight, layer.bias)]  # type: ignore[misc]


@torch.no_grad()
def match_pair(
    network: GraphNetwork, a: Frames, b: Frames, threshold: float, tolerance: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Match two images, of at least one keypoint each.

    Args:
        threshold: smallest probability.
        tolerance: largest error of `local_agreement.local_errors`; infinite: none is computed.

    Shape:
        -> keypoints of both images (M, 2) int64, their distance (M,) and probability (M,), on the CPU.
    """
    device, count = a.xy.device, len(a)
    tables = PairTables(a, b, network.options)
    scores = logits(network, tables)
    found = torch.zeros(4, count, dtype=torch.int32, device=device)
    places, scale = torch.empty(2, count, 2, device=device), torch.empty(2, count, device=device)
    _matching_kernel[(triton.cdiv(count, _ROWS),)](
        scores, tables.index, tables.distance, tables.xy, tables.scale, found, places, scale, count, threshold,
        K=network.options.candidates, BLOCK=_ROWS,
    )  # fmt: skip
    if math.isfinite(tolerance):
        match_errors(places, scale, found[1].view(torch.float32), found[3].view(torch.float32))
    other, *bits = found.cpu()  # one copy of all
    score, distance, error = (each.view(torch.float32) for each in bits)
    kept = other >= 0
    if math.isfinite(tolerance) and int(kept.sum()) >= FEWEST:
        kept &= error < tolerance
    rows = kept.nonzero()[:, 0]
    return torch.stack([rows, other[rows].long()], 1), distance[rows], score[rows]


def match_errors(places: Tensor, scale: Tensor, score: Tensor, out: Tensor) -> None:
    """Write the errors of matches as `local_agreement.local_errors`, into ``out`` (N,).

    Shape:
        places (2, N, 2) in both images, infinite where there is no match; scale (2, N), score (N,).
    """
    count, edges = len(score), NEIGHBORS.neighbors
    neighbor = torch.empty(2, count, edges, dtype=torch.int32, device=places.device)
    for image in range(2):
        nearest_places(places[image], scale[image], neighbor[image])
    _errors_kernel[(triton.cdiv(count, _MATCHES),)](
        places, neighbor, score, out, count, RIDGE, NOISE, PER_PIXEL, EDGES=edges, STEPS=STEPS, BLOCK=_MATCHES,
    )  # fmt: skip
