"""Triton kernels for `_scale_space`, recorded for images up to a size, so that finding takes one call to the GPU.

All octaves lie in one buffer, each as six levels of a canvas that its images fit into; their size is read on the device.
Extrema, refined points and keypoints are appended to buffers of fixed size; a search that overflows one is repeated with more.
The order in which they were appended is left to chance, so that keypoints are sorted by a key of score and place at the end.
Triton comes with PyTorch's builds for GPUs.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchprint.common.devices import Recording
from patchprint.common.lru import Lru
from patchprint.common.types import Keypoints
from patchprint.detectors import _scale_space as plain
from patchprint.interop.opencv import LAYERS_PER_OCTAVE, SIFT_SIGMA

_LEVELS = LAYERS_PER_OCTAVE + 3
_FIRST = math.sqrt(SIFT_SIGMA**2 - plain.IMAGE_SIGMA**2)
_CANVAS = 256  # pixels of which the sides of a canvas are multiples
_ALIGNED = 16  # pixels of which rows are multiples, as Triton compiles kernels for
_KEPT_PIXELS = 1 << 24  # of the canvases whose recordings are kept
_HEADER = 8  # bytes before the pixels: height and width
_FIELDS = 6  # of a keypoint: x, y, scale, angle, score, and whether it is the first of equal ones
_BLUR, _ENLARGE, _EXTREMA = (8, 128), (8, 128), (4, 128)  # rows and columns of one program
_POINTS = 128  # extrema that one program refines
_PIXELS = 128  # around a point that are counted at a time
_DIRECTIONS = 4  # of one point, at most
_BINS: tl.constexpr = tl.constexpr(plain.BINS)
_turn = threading.Lock()  # a recording has one input and one output buffer


@triton.jit
def _mirrored(place, last):  # type: ignore[no-untyped-def]
    """Mirror places beyond the first and the last pixel, up to twice."""
    place = last - tl.abs(last - tl.abs(place))
    return tl.minimum(tl.abs(place), last)


@triton.jit
def _pixel(image, row, column, height, width, inside):  # type: ignore[no-untyped-def]
    place = tl.minimum(row, height - 1) * width + tl.minimum(column, width - 1)
    return tl.load(image + place, inside, 0).to(tl.float32)


@triton.jit
def _enlarging_kernel(image, size, target, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    height, width = tl.load(size), tl.load(size + 1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < 2 * height) & (column < 2 * width)
    top, left = row // 2, column // 2
    down, right = (row % 2).to(tl.float32) / 2, (column % 2).to(tl.float32) / 2
    above = _pixel(image, top, left, height, width, inside) * (1 - right)
    above += _pixel(image, top, left + 1, height, width, inside) * right
    below = _pixel(image, top + 1, left, height, width, inside) * (1 - right)
    below += _pixel(image, top + 1, left + 1, height, width, inside) * right
    tl.store(target + row * stride + column, above * (1 - down) + below * down, inside)


@triton.jit(do_not_specialize=["octave"])  # each would be compiled for itself
def _blurring_kernel(  # type: ignore[no-untyped-def]
    source, weights, size, target, octave, stride,
    RADIUS: tl.constexpr, ALONG_ROWS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    height, width = (2 * tl.load(size)) >> octave, (2 * tl.load(size + 1)) >> octave
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < height) & (column < width)
    value = tl.zeros([ROWS, COLUMNS], tl.float32)
    for tap in tl.static_range(2 * RADIUS + 1):
        if ALONG_ROWS:
            place = row * stride + _mirrored(column + (tap - RADIUS), width - 1)
        else:
            place = _mirrored(row + (tap - RADIUS), height - 1) * stride + column
        value += tl.load(source + place, inside, 0.0) * tl.load(weights + tap)
    tl.store(target + row * stride + column, value, inside)


@triton.jit(do_not_specialize=["octave"])  # each would be compiled for itself
def _halving_kernel(  # type: ignore[no-untyped-def]
    source, size, target, octave, stride, target_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    height, width = (2 * tl.load(size)) >> octave, (2 * tl.load(size + 1)) >> octave
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < height) & (column < width)
    tl.store(
        target + row * target_stride + column, tl.load(source + 2 * row * stride + 2 * column, inside, 0.0), inside
    )


@triton.jit
def _is_extremum(value, high, low, least):  # type: ignore[no-untyped-def]
    return ((value >= high) & (value > least)) | ((value <= low) & (value < -least))


@triton.jit(do_not_specialize=["octave"])  # each would be compiled for itself
def _extrema_kernel(  # type: ignore[no-untyped-def]
    levels, size, found, octaves, counters, offset, stride, area, octave, least, capacity,
    BORDER: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    height, width = (2 * tl.load(size)) >> octave, (2 * tl.load(size + 1)) >> octave
    pixel = tl.arange(0, ROWS * COLUMNS)
    row, column = tl.program_id(0) * ROWS + pixel // COLUMNS, tl.program_id(1) * COLUMNS + pixel % COLUMNS
    inside = (row >= BORDER) & (row < height - BORDER) & (column >= BORDER) & (column < width - BORDER)
    place = offset + row * stride + column
    nothing = tl.zeros([ROWS * COLUMNS], tl.float32)
    first, second, third = nothing, nothing, nothing
    high1, high2, high3 = nothing - float("inf"), nothing - float("inf"), nothing - float("inf")
    low1, low2, low3 = nothing + float("inf"), nothing + float("inf"), nothing + float("inf")
    for tap in tl.static_range(9):
        at = levels + place + (tap // 3 - 1) * stride + (tap % 3 - 1)
        a, b = tl.load(at, inside, 0.0), tl.load(at + area, inside, 0.0)
        c, d = tl.load(at + 2 * area, inside, 0.0), tl.load(at + 3 * area, inside, 0.0)
        e, f = tl.load(at + 4 * area, inside, 0.0), tl.load(at + 5 * area, inside, 0.0)
        ab, bc, cd, de, ef = b - a, c - b, d - c, e - d, f - e
        high1 = tl.maximum(high1, tl.maximum(tl.maximum(ab, bc), cd))
        high2 = tl.maximum(high2, tl.maximum(tl.maximum(bc, cd), de))
        high3 = tl.maximum(high3, tl.maximum(tl.maximum(cd, de), ef))
        low1 = tl.minimum(low1, tl.minimum(tl.minimum(ab, bc), cd))
        low2 = tl.minimum(low2, tl.minimum(tl.minimum(bc, cd), de))
        low3 = tl.minimum(low3, tl.minimum(tl.minimum(cd, de), ef))
        if tap == 4:
            first, second, third = bc, cd, de
    is1 = inside & _is_extremum(first, high1, low1, least)
    is2 = inside & _is_extremum(second, high2, low2, least)
    is3 = inside & _is_extremum(third, high3, low3, least)
    count = is1.to(tl.int32) + is2.to(tl.int32) + is3.to(tl.int32)
    slot = tl.atomic_add(counters, tl.sum(count, 0)) + tl.cumsum(count, 0) - count
    tl.store(found + slot, place + area, is1 & (slot < capacity))
    tl.store(octaves + slot, octave + tl.zeros_like(slot), is1 & (slot < capacity))
    slot += is1.to(tl.int32)
    tl.store(found + slot, place + 2 * area, is2 & (slot < capacity))
    tl.store(octaves + slot, octave + tl.zeros_like(slot), is2 & (slot < capacity))
    slot += is2.to(tl.int32)
    tl.store(found + slot, place + 3 * area, is3 & (slot < capacity))
    tl.store(octaves + slot, octave + tl.zeros_like(slot), is3 & (slot < capacity))


@triton.jit
def _difference(levels, place, area, exists):  # type: ignore[no-untyped-def]
    return tl.load(levels + place + area, exists, 0.0) - tl.load(levels + place, exists, 0.0)


@triton.jit
def _rounded(value):  # type: ignore[no-untyped-def]
    return tl.floor(tl.minimum(tl.maximum(value, -1e6), 1e6) + 0.5).to(tl.int32)


@triton.jit
def _refining_kernel(  # type: ignore[no-untyped-def]
    levels, size, table, found, octaves, counters, points, point_octaves, values, capacity, point_capacity, contrast, edge,
    BORDER: tl.constexpr, LAYERS: tl.constexpr, STEPS: tl.constexpr, POINTS: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    if tl.program_id(0) * POINTS >= tl.load(counters):
        return
    exists = number < tl.minimum(tl.load(counters), capacity)
    start, octave = tl.load(found + number, exists, 0), tl.load(octaves + number, exists, 0)
    offset, stride, area = tl.load(table + 3 * octave), tl.load(table + 3 * octave + 1), tl.load(table + 3 * octave + 2)
    height, width = (2 * tl.load(size)) >> octave, (2 * tl.load(size + 1)) >> octave
    layer, inner = (start - offset) // area, (start - offset) % area
    row, column = inner // stride, inner % stride
    alive, settled = exists, exists
    nothing = tl.zeros([POINTS], tl.float32)
    along, down, right, value = nothing, nothing, nothing, nothing
    for _ in range(STEPS):
        at = offset + layer * area + row * stride + column
        value = _difference(levels, at, area, alive) / 255
        higher, lower = _difference(levels, at + area, area, alive), _difference(levels, at - area, area, alive)
        below, above = _difference(levels, at + stride, area, alive), _difference(levels, at - stride, area, alive)
        after, before = _difference(levels, at + 1, area, alive), _difference(levels, at - 1, area, alive)
        s, y, x = (higher - lower) / 510, (below - above) / 510, (after - before) / 510
        ss, yy = (higher + lower) / 255 - 2 * value, (below + above) / 255 - 2 * value
        xx = (after + before) / 255 - 2 * value
        up, down_again = at + area, at - area
        sy = _difference(levels, up + stride, area, alive) - _difference(levels, up - stride, area, alive)
        sy += _difference(levels, down_again - stride, area, alive) - _difference(
            levels, down_again + stride, area, alive
        )
        sx = _difference(levels, up + 1, area, alive) - _difference(levels, up - 1, area, alive)
        sx += _difference(levels, down_again - 1, area, alive) - _difference(levels, down_again + 1, area, alive)
        yx = _difference(levels, at + stride + 1, area, alive) - _difference(levels, at + stride - 1, area, alive)
        yx += _difference(levels, at - stride - 1, area, alive) - _difference(levels, at - stride + 1, area, alive)
        sy, sx, yx = sy / 1020, sx / 1020, yx / 1020
        a, b, c = yy * xx - yx * yx, sx * yx - sy * xx, sy * yx - sx * yy
        d, e, f = ss * xx - sx * sx, sx * sy - ss * yx, ss * yy - sy * sy
        determinant = ss * a + sy * b + sx * c
        is_solved = determinant != 0
        scaled = tl.where(is_solved, -1 / tl.where(is_solved, determinant, 1.0), 1e9)
        along, down, right = (
            (a * s + b * y + c * x) * scaled,
            (b * s + d * y + e * x) * scaled,
            (c * s + e * y + f * x) * scaled,
        )
        settled = alive & is_solved & (tl.abs(along) < 0.5) & (tl.abs(down) < 0.5) & (tl.abs(right) < 0.5)
        moves = alive & (settled == 0)
        layer = tl.where(moves, layer + _rounded(along), layer)
        row, column = tl.where(moves, row + _rounded(down), row), tl.where(moves, column + _rounded(right), column)
        alive &= (layer >= 1) & (layer <= LAYERS)
        alive &= (row >= BORDER) & (row < height - BORDER) & (column >= BORDER) & (column < width - BORDER)
        value += 0.5 * (s * along + y * down + x * right)
        trace, product = xx + yy, xx * yy - yx * yx
        settled &= (product > 0) & (trace * trace * edge < (edge + 1) * (edge + 1) * product)
        settled &= tl.abs(value) * LAYERS >= contrast
    good = (alive & settled).to(tl.int32)
    slot = tl.atomic_add(counters + 1, tl.sum(good, 0)) + tl.cumsum(good, 0) - good
    kept = (good > 0) & (slot < point_capacity)
    tl.store(points + slot, offset + layer * area + row * stride + column, kept)
    tl.store(point_octaves + slot, octave, kept)
    tl.store(values + 4 * slot, along, kept)
    tl.store(values + 4 * slot + 1, down, kept)
    tl.store(values + 4 * slot + 2, right, kept)
    tl.store(values + 4 * slot + 3, tl.abs(value), kept)


@triton.jit
def _arc_tangent(y, x):  # type: ignore[no-untyped-def]
    """The angle of (x, y) in radians from 0 to 2 pi, within 1e-5 (Abramowitz and Stegun 4.4.47)."""
    wide, tall = tl.abs(x), tl.abs(y)
    t = tl.minimum(wide, tall) / tl.maximum(tl.maximum(wide, tall), 1e-30)
    t2 = t * t
    angle = t * (0.9998660 + t2 * (-0.3302995 + t2 * (0.1801410 + t2 * (-0.0851330 + t2 * 0.0208351))))
    angle = tl.where(tall > wide, 1.5707963267948966 - angle, angle)
    angle = tl.where(x < 0, 3.141592653589793 - angle, angle)
    return tl.where(y < 0, 6.283185307179586 - angle, angle)


@triton.jit
def _direction_kernel(  # type: ignore[no-untyped-def]
    levels, size, table, points, octaves, values, counters, keys, records, point_capacity, capacity,
    SIGMA: tl.constexpr, REACH: tl.constexpr, LAYERS: tl.constexpr, PEAK: tl.constexpr, DIRECTIONS: tl.constexpr,
    FIELDS: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    point = tl.program_id(0)
    if point >= tl.minimum(tl.load(counters + 1), point_capacity):
        return
    start, octave = tl.load(points + point), tl.load(octaves + point)
    offset, stride, area = tl.load(table + 3 * octave), tl.load(table + 3 * octave + 1), tl.load(table + 3 * octave + 2)
    height, width = (2 * tl.load(size)) >> octave, (2 * tl.load(size + 1)) >> octave
    layer, inner = (start - offset) // area, (start - offset) % area
    row, column = inner // stride, inner % stride
    scale = SIGMA * tl.exp2((layer.to(tl.float32) + tl.load(values + 4 * point)) / LAYERS)
    radius = tl.floor(REACH * scale + 0.5).to(tl.int32)
    side = 2 * radius + 1
    falloff = -0.5 / (2.25 * scale * scale)
    lane = tl.arange(0, 64)
    counts = tl.zeros([64], tl.float32)
    for first in range(0, side * side, PIXELS):
        pixel = first + tl.arange(0, PIXELS)
        down, right = pixel // side - radius, pixel % side - radius
        used = (pixel < side * side) & (row + down > 0) & (row + down < height - 1)
        used &= (column + right > 0) & (column + right < width - 1)
        at = levels + start + down * stride + right
        dx = tl.load(at + 1, used, 0.0) - tl.load(at - 1, used, 0.0)
        dy = tl.load(at - stride, used, 0.0) - tl.load(at + stride, used, 0.0)
        weight = tl.exp((down * down + right * right).to(tl.float32) * falloff) * tl.sqrt(dx * dx + dy * dy)
        number = tl.floor(_arc_tangent(dy, dx) * (_BINS / 6.283185307179586) + 0.5).to(tl.int32) % _BINS
        weight = tl.where(used, weight, 0.0)
        counts += tl.sum(tl.where(number[:, None] == lane[None, :], weight[:, None], 0.0), 0)
    # Neighbors in the circle are found by comparing all pairs of bins.
    apart = tl.abs(lane[:, None] - lane[None, :])
    apart = tl.minimum(apart, -apart + _BINS)
    share = tl.where(apart == 0, 6.0, tl.where(apart == 1, 4.0, tl.where(apart == 2, 1.0, 0.0))) / 16
    is_bin = lane < _BINS
    smooth = tl.where(is_bin, tl.sum(counts[None, :] * share, 1), 0.0)
    step = (lane[None, :] - lane[:, None] + _BINS) % _BINS
    both = is_bin[:, None] & is_bin[None, :]
    after = tl.sum(tl.where(both & (step == 1), smooth[None, :], 0.0), 1)
    before = tl.sum(tl.where(both & (step == _BINS - 1), smooth[None, :], 0.0), 1)
    is_peak = is_bin & (smooth > before) & (smooth > after) & (smooth >= PEAK * tl.max(smooth, 0))
    curvature = before - 2 * smooth + after
    turned = lane.to(tl.float32) + 0.5 * (before - after) / tl.where(is_peak, curvature, 1.0)
    angle = (-turned + _BINS) * (6.283185307179586 / _BINS)  # rows were counted upwards
    angle = tl.where(angle >= 6.283185307179586, angle - 6.283185307179586, angle)
    rank = tl.cumsum(is_peak.to(tl.int32), 0) - 1
    is_peak &= rank < DIRECTIONS
    slot = tl.atomic_add(counters + 2, tl.sum(is_peak.to(tl.int32), 0)) + rank
    kept = is_peak & (slot < capacity)
    unit = tl.exp2(octave.to(tl.float32) - 1)
    score = tl.load(values + 4 * point + 3)
    place = (start.to(tl.int64) * DIRECTIONS + rank.to(tl.int64)) & 0xFFFFFFFF
    bits = score.to(tl.int32, bitcast=True).to(tl.int64)
    tl.store(keys + slot, (bits << 32) | (0xFFFFFFFF - place), kept)
    record = records + FIELDS * slot
    nothing = tl.zeros([64], tl.float32)
    tl.store(record, (column.to(tl.float32) + tl.load(values + 4 * point + 2)) * unit + nothing, kept)
    tl.store(record + 1, (row.to(tl.float32) + tl.load(values + 4 * point + 1)) * unit + nothing, kept)
    tl.store(record + 2, scale * unit + nothing, kept)
    tl.store(record + 3, angle, kept)
    tl.store(record + 4, score + nothing, kept)


def find(image: Tensor, contrast: float, edge: float, device: torch.device) -> Keypoints:
    """Do as `_scale_space.find`; an image in the memory of the host is staged in pinned memory."""
    height, width = image.shape
    if not plain.num_octaves(height, width):
        return Keypoints.empty().to(device)
    size = torch.tensor([height, width], dtype=torch.int32).view(torch.uint8)
    given = torch.cat([size.to(image.device), image.flatten()])
    tall, wide = (-(-side // _CANVAS) * _CANVAS for side in image.shape)
    factor = 1
    while True:
        with _turn:
            key = tall, wide, contrast, edge, factor, device
            prepared = _prepared.get(key, partial(_Prepared.make, *key))
            found = prepared.run(given)
            counts = found[0, :3].long().tolist()
            rows = found[1 : 1 + counts[2]]
            rows = rows[rows[:, 5] > 0]  # a copy: the next search overwrites what was found
        if prepared.search.fits(counts):
            return Keypoints(rows[:, :2], rows[:, 2], rows[:, 3], rows[:, 4])
        factor *= 4


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A search and the function that runs it; on a GPU they hold some 130 bytes of memory for each pixel of the canvas."""

    search: _Search
    run: Callable[[Tensor], Tensor]
    pixels: int

    @staticmethod
    def make(height: int, width: int, contrast: float, edge: float, factor: int, device: torch.device) -> _Prepared:
        search = _Search.prepare(height, width, contrast, edge, factor, device)
        if device.type != "cuda":  # Triton's interpreter
            return _Prepared(search, search, height * width)
        size = torch.tensor([height, width], dtype=torch.int32, device=device).view(torch.uint8)
        pixels = torch.randint(0, 256, (height * width,), dtype=torch.uint8, device=device)
        return _Prepared(search, Recording(search, torch.cat([size, pixels])), height * width)


_prepared: Lru[_Prepared] = Lru(_KEPT_PIXELS, cost=lambda each: each.pixels)


@dataclass(frozen=True, eq=False)
class _Search:
    """A search in images up to the size of a canvas."""

    octaves: list[tuple[int, int, int]]  # offset, height and width of the canvas
    table: Tensor
    weights: dict[float, Tensor]
    contrast: float
    edge: float
    capacities: tuple[int, int, int]

    @staticmethod
    def prepare(height: int, width: int, contrast: float, edge: float, factor: int, device: torch.device) -> _Search:
        """Prepare a search in a canvas (height, width) whose buffers are ``factor`` times as large as usual."""
        octaves, offset = [], 0
        for octave in range(plain.num_octaves(height, width)):
            tall, wide = (2 * height) >> octave, -(-((2 * width) >> octave) // _ALIGNED) * _ALIGNED
            octaves.append((offset, tall, wide))
            offset += _LEVELS * tall * wide
        rows = [[start, wide, tall * wide] for start, tall, wide in octaves]
        weights = {each: torch.tensor(plain.gaussian(each), device=device) for each in (_FIRST, *plain.sigmas())}
        pixels = max(height * width, 1 << 16) * factor
        capacities = pixels // 8, pixels // 24, pixels // 16
        return _Search(
            octaves, torch.tensor(rows, dtype=torch.int32, device=device), weights, contrast, edge, capacities
        )

    def __call__(self, given: Tensor) -> Tensor:
        """Search an image: its height and width as int32 and its pixels, in bytes -> (1 + capacity, FIELDS).

        The first row counts extrema, points and keypoints; the keypoints follow, strongest first.
        """
        device, size, image = given.device, given[:_HEADER].view(torch.int32), given[_HEADER:]
        levels = torch.empty(sum(_LEVELS * tall * wide for _, tall, wide in self.octaves), device=device)
        between = torch.empty(self.octaves[0][1] * self.octaves[0][2], device=device)
        counters = torch.zeros(3, dtype=torch.int32, device=device)
        extrema, points, most = self.capacities
        found, octaves = (torch.empty(extrema, dtype=torch.int32, device=device) for _ in range(2))
        for octave, (offset, tall, wide) in enumerate(self.octaves):
            level = list(levels[offset:].split(tall * wide)[:_LEVELS])
            if octave == 0:
                rows, columns = _ENLARGE
                grid = (triton.cdiv(tall, rows), triton.cdiv(wide, columns))
                _enlarging_kernel[grid](image, size, level[1], wide, ROWS=rows, COLUMNS=columns)
                self._blur(level[1], between, level[0], size, octave, tall, wide, _FIRST)
            for number, sigma in enumerate(plain.sigmas()):
                self._blur(level[number], between, level[number + 1], size, octave, tall, wide, sigma)
            rows, columns = _EXTREMA
            grid = (triton.cdiv(tall, rows), triton.cdiv(wide, columns))
            _extrema_kernel[grid](
                levels, size, found, octaves, counters, offset, wide, tall * wide, octave,
                255 * 0.5 * self.contrast / LAYERS_PER_OCTAVE, extrema, BORDER=plain.BORDER, ROWS=rows, COLUMNS=columns,
            )  # fmt: skip
            if octave + 1 < len(self.octaves):
                start, low, narrow = self.octaves[octave + 1]
                rows, columns = _BLUR
                grid = (triton.cdiv(low, rows), triton.cdiv(narrow, columns))
                _halving_kernel[grid](
                    level[LAYERS_PER_OCTAVE], size, levels[start:], octave + 1, wide, narrow, ROWS=rows, COLUMNS=columns
                )
        places, place_octaves = (torch.empty(points, dtype=torch.int32, device=device) for _ in range(2))
        values = torch.empty(points, 4, device=device)
        _refining_kernel[(triton.cdiv(extrema, _POINTS),)](
            levels, size, self.table, found, octaves, counters, places, place_octaves, values, extrema, points,
            self.contrast, self.edge, BORDER=plain.BORDER, LAYERS=LAYERS_PER_OCTAVE, STEPS=plain.STEPS, POINTS=_POINTS,
        )  # fmt: skip
        keys = torch.zeros(most, dtype=torch.int64, device=device)
        records = torch.zeros(most, _FIELDS, device=device)
        _direction_kernel[(points,)](
            levels, size, self.table, places, place_octaves, values, counters, keys, records, points, most,
            SIGMA=SIFT_SIGMA, REACH=plain.REACH, LAYERS=LAYERS_PER_OCTAVE, PEAK=plain.PEAK, DIRECTIONS=_DIRECTIONS,
            FIELDS=_FIELDS, PIXELS=_PIXELS, num_warps=1,
        )  # fmt: skip
        ordered, order = keys.sort(descending=True)
        records = records[order]
        # Extrema next to each other may have moved to the same place.
        records[:1, 5].fill_(1)  # an assignment would copy from the host, which no recording may
        records[1:, 5] = (ordered[1:] != ordered[:-1]).float()
        header = torch.zeros(1, _FIELDS, device=device)
        header[0, :3] = counters
        return torch.cat([header, records])

    def _blur(
        self,
        source: Tensor,
        between: Tensor,
        target: Tensor,
        size: Tensor,
        octave: int,
        tall: int,
        wide: int,
        sigma: float,
    ) -> None:
        weights, (rows, columns) = self.weights[sigma], _BLUR
        grid = (triton.cdiv(tall, rows), triton.cdiv(wide, columns))
        for begin, end, along_rows in ((source, between, True), (between, target, False)):
            _blurring_kernel[grid](
                begin, weights, size, end, octave, wide,
                RADIUS=len(weights) // 2, ALONG_ROWS=along_rows, ROWS=rows, COLUMNS=columns,
            )  # fmt: skip

    def fits(self, counts: list[int]) -> bool:
        return all(count <= most for count, most in zip(counts, self.capacities, strict=True))
