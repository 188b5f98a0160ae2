"""Distances between descriptors and nearest neighbors: Euclidean for vectors, Hamming for packed bits.

Packed bits are uint8 in the order of numpy.packbits.

Matching uses float32: torch for vectors, and FAISS's popcount for bits where it is installed; on an NVIDIA GPU a kernel. int8
vectors are multiplied as integers on CPUs with VNNI, which is exact and several times as fast (``python -m perf.speed.contest
--stages match``). Scores use *exact* distances: float64, squares rounded to 1e-9, since rounding errors of a matrix product
would break ties.
"""

import importlib.util

import numpy as np
import torch
from torch import Tensor

from patchprint.common.devices import supports_triton
from patchprint.common.errors import UserError, require

Descriptors = Tensor | np.ndarray

_CHUNK_CELLS = 1 << 23  # distances held at a time
_CELLS_ON_GPU = 1 << 28
_FEW = 8  # neighbors that are found on a CPU by a pass over the distances each
_GROUP = 16  # columns of distances whose largest is found first
_CHUNK = 2048  # pairs whose exact distances are computed at a time
_EXACT_CELLS = 1 << 19  # exact distances held at a time
_STEP = 2.0**-30


def pack_bits(raw: Tensor) -> Tensor:
    """Pack sign bits, eight to a byte; zero and negative give bit 0.

    Shape:
        (N, D) -> (N, D // 8) uint8; D is a multiple of 8.
    """
    if raw.shape[-1] % 8:
        raise UserError(f"{raw.shape[-1]} bits do not fill whole bytes; use a dimension that is a multiple of 8")
    place = 1 << torch.arange(7, -1, -1, device=raw.device)  # no copy, which a CUDA graph could not hold
    return ((raw > 0).unflatten(-1, (-1, 8)) * place.to(torch.uint8)).sum(-1, dtype=torch.uint8)


def unpack_bits(packed: Tensor) -> Tensor:
    """Unpack the bits of `pack_bits` to 0 and 1: (..., B) uint8 -> (..., 8 B) uint8."""
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
    return ((packed[..., None] >> shifts) & 1).flatten(-2)


def nearest(queries: Tensor, base: Tensor, k: int = 1, *, exact: bool = False) -> tuple[Tensor, Tensor]:
    """Find the k nearest base descriptors of every query, on the CPU or the GPU of the queries.

    Descriptors with NaN or infinity have no neighbors and are nobody's.

    Args:
        exact: tie-safe distances for scores, in float64; of equally near ones the first.

    Shape:
        queries (N, D), base (M, D) -> distance (N, k) float32 (float64 if exact) in ascending order, index (N, k) int64, on the
        CPU; infinity and -1 where there are fewer than k.
    """
    _refuse_different(queries, base)
    if _has_kernel(queries.device, k) and not exact and len(queries) and len(base):
        return _with_kernel(queries, base, k)[:2]
    distance = torch.full((len(queries), k), torch.inf, dtype=torch.float64 if exact else torch.float32)
    index = torch.full((len(queries), k), -1, dtype=torch.int64)
    # NaN is larger than all numbers: such a descriptor would be the nearest of every other.
    asking, answering = _is_finite(queries), _is_finite(base)
    if not (asking.all() and answering.all()):
        nearer, number = nearest(queries[asking], base[answering], k, exact=exact)
        rows = answering.nonzero()[:, 0].cpu()
        distance[asking.cpu()] = nearer
        index[asking.cpu()] = torch.where(number < 0, -1, rows[number]) if len(rows) else number
        return distance, index
    available = min(k, len(base))
    if len(queries) and available:
        search = _exactly if exact else _with_faiss if _use_faiss(queries) else _with_torch
        found_distance, found_index, *_ = search(queries, base, available)
        distance[:, :available], index[:, :available] = found_distance.cpu(), found_index.cpu()
    return distance, index


def nearest_on_device(queries: Tensor, base: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find neighbors as `nearest` does, where the descriptors are, and without waiting for the device."""
    if supports_triton(queries.device) and len(queries) and len(base):
        from patchprint.ops.distances_kernel import several_nearest

        nearness = torch.empty(len(queries), k, device=queries.device)
        number = torch.empty(len(queries), k, dtype=torch.int64, device=queries.device)
        several_nearest(queries, base, nearness, number)
        return nearness, number
    bits = queries.dtype == torch.uint8
    asking, answering = _is_finite(queries), _is_finite(base)
    queries, base = (
        torch.where(finite[:, None], as_vectors(each), 0) for each, finite in ((queries, asking), (base, answering))
    )
    available = min(k, len(base))
    half_norm = torch.where(answering, base.square().sum(1) / 2, torch.inf)
    best, index = [], []
    for part in queries.split(max(1, _CELLS_ON_GPU // max(1, len(base)))):
        values, columns = _largest(torch.addmm(-half_norm, part, base.T), available)
        squared = (part.square().sum(1, keepdim=True) - 2 * values).clamp(min=0)
        best.append(squared / 4 if bits else squared.sqrt())
        index.append(columns)
    distance, found = torch.cat(best), torch.cat(index)
    there = asking[:, None] & distance.isfinite()
    missing = (0, k - available)
    distance = torch.nn.functional.pad(torch.where(there, distance, torch.inf), missing, value=torch.inf)
    return distance, torch.nn.functional.pad(torch.where(there, found, -1), missing, value=-1)


def nearest_both_ways(a: Tensor, b: Tensor, k: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Find the k nearest in ``b`` of every descriptor of ``a``, as `nearest` does, and whether the nearest are mutual.

    Shape:
        a (N, D), b (M, D) -> distance (N, k), index (N, k), and mutual (N,) bool: whether each is in turn the nearest of its
        nearest; on the CPU.
    """
    _refuse_different(a, b)
    back: Tensor | None
    if _has_kernel(a.device, k) and len(a) and len(b):
        distance, index, back = _with_kernel(a, b, k, both_ways=True)
        assert back is not None
    elif a.device.type == "cpu" and not _use_faiss(a) and k <= len(b) and _is_finite(a).all() and _is_finite(b).all():
        distance, index, mutual = _with_torch(a, b, k, both_ways=True)
        assert mutual is not None
        return distance, index, mutual
    else:
        (distance, index), back = nearest(a, b, k), nearest(b, a)[1][:, 0]
    first = index[:, 0]
    return distance, index, (first >= 0) & (back[first] == torch.arange(len(a))) if len(b) else first >= 0


def _refuse_different(queries: Tensor, base: Tensor) -> None:
    """Raise UserError for descriptors that cannot be compared."""
    if queries.shape[1] != base.shape[1] or queries.dtype != base.dtype:
        units = {torch.uint8: "bytes of packed bits"}
        kinds = [
            f"{each.shape[1]} {units.get(each.dtype, f'{each.dtype} values')}".replace("torch.", "")
            for each in (queries, base)
        ]
        raise UserError(f"cannot compare descriptors of {kinds[0]} with descriptors of {kinds[1]}")


def nearest_inconsistent(queries: Tensor, base: Tensor, first: Tensor, xy: Tensor, radius: float) -> Tensor:
    """Find the distance to the nearest base descriptor farther than ``radius`` pixels from the first neighbor.

    Shape:
        first (N,) int64 index of the first neighbor; xy (M, 2) positions of the base -> (N,) float32, infinite where there is
        none.
    """
    bits = queries.dtype == torch.uint8
    queries, base = as_vectors(queries), as_vectors(base)
    half_norm = base.square().sum(1) / 2
    unusable = ~_is_finite(base)
    squared = torch.empty(len(queries), device=queries.device)  # before the chunks, as below
    step = max(1, _CHUNK_CELLS // max(1, len(base)))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        part, chosen = queries[rows], first[rows]
        score = part @ base.T - half_norm
        # Pixel positions are large numbers: the matrix product would lose whole pixels of their distance.
        away = torch.cdist(xy[chosen], xy, compute_mode="donot_use_mm_for_euclid_dist")
        score[away <= radius] = -torch.inf
        score[:, unusable] = -torch.inf
        squared[rows] = (part.square().sum(1) - 2 * score.max(1).values).clamp(min=0)
    return squared / 4 if bits else squared.sqrt()


def pair_distances(a: Descriptors, b: Descriptors) -> np.ndarray:
    """Compute exact distances of row i of a to row i of b: (N, D), (N, D) -> (N,) float64."""
    parts = [
        _rounded(((_exact_vectors(x) - _exact_vectors(y)) ** 2).sum(1), x)
        for x, y in zip(torch.as_tensor(a).split(_CHUNK), torch.as_tensor(b).split(_CHUNK), strict=True)
    ]
    return torch.cat(parts).cpu().numpy() if parts else np.zeros(0)


def distance_matrix(a: Descriptors, b: Descriptors) -> Tensor:
    """Compute all exact distances: (N, D), (M, D) -> (N, M) float64."""
    x, y = _exact_vectors(a), _exact_vectors(b)
    return _rounded((x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2.0 * (x @ y.T), torch.as_tensor(a))


def chance_of_same_index(a: Descriptors, b: Descriptors) -> tuple[np.ndarray, np.ndarray]:
    """Compute whether the nearest neighbor of row i of a is row i of b; among k equally near rows, the chance 1 / k.

    Shape:
        (N, D), (N, D) -> distance of the nearest (N,), chance (N,) in [0, 1].
    """
    distances, chances = [], []
    step = _exact_rows(b)
    for start, rows in zip(range(0, len(a), step), torch.as_tensor(a).split(step), strict=True):
        matrix = distance_matrix(rows, b)
        least = matrix.min(dim=1, keepdim=True).values
        tied = matrix == least
        here = torch.arange(len(rows), device=matrix.device)
        chances.append(tied[here, start + here].double() / tied.sum(1))
        distances.append(least[:, 0])
    return torch.cat(distances).cpu().numpy(), torch.cat(chances).cpu().numpy()


def _exactly(queries: Tensor, base: Tensor, k: int) -> tuple[Tensor, Tensor]:
    # Allocated before the chunks, whose memory small results would fragment.
    distances = torch.empty(len(queries), k, dtype=torch.float64, device=queries.device)
    indices = torch.empty(len(queries), k, dtype=torch.int64, device=queries.device)
    step = _exact_rows(base)
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        matrix = distance_matrix(queries[rows], base)
        if k == 1:
            best = matrix.min(dim=1, keepdim=True)
            distances[rows], indices[rows] = best.values, best.indices
        else:
            ordered = matrix.sort(dim=1, stable=True)
            distances[rows], indices[rows] = ordered.values[:, :k], ordered.indices[:, :k]
    return distances, indices


def _exact_rows(base: Descriptors) -> int:
    """Return how many rows of exact distances to ``base`` are held at a time."""
    return max(1, _EXACT_CELLS // max(1, len(base)))


def _has_kernel(device: torch.device, k: int) -> bool:
    """Whether both ways are searched on a device in one pass, for so many neighbors."""
    return supports_triton(device) and k <= 2


def _with_kernel(
    queries: Tensor, base: Tensor, k: int, both_ways: bool = False
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Find up to two neighbors on a GPU and, with ``both_ways``, the nearest query of each base descriptor, (M,)."""
    from patchprint.ops.distances_kernel import two_nearest

    distance, index, back = two_nearest(queries, base, both_ways)
    return distance[:, :k], index[:, :k], back


def _with_torch(queries: Tensor, base: Tensor, k: int, both_ways: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:
    """Find neighbors by a matrix product and, with ``both_ways``, whether the nearest are mutual, (N,) bool."""
    bits = queries.dtype == torch.uint8
    if not _multiplies_int8(queries):
        queries, base = as_vectors(queries), as_vectors(base)
    length, base_length = _squared_lengths(queries), _squared_lengths(base)
    # Allocated before the chunks, whose memory small results would fragment.
    distances = torch.empty(len(queries), k, device=queries.device)
    indices = torch.empty(len(queries), k, dtype=torch.int64, device=queries.device)
    nearness = torch.empty_like(length)  # of the nearest: minus the squared distance
    highest = torch.full_like(base_length, _lowest(base_length.dtype))
    step = max(1, _CHUNK_CELLS // len(base))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        score = _scores(queries[rows], base, base_length)
        best, indices[rows] = _largest(score, k)
        squared = (length[rows, None] - best).clamp(min=0)
        distances[rows] = squared / 4 if bits else squared.sqrt()  # two signs that differ are 2 apart
        if both_ways:
            score -= length[rows, None]
            nearness[rows] = score.gather(1, indices[rows, :1])[:, 0]
            highest = torch.maximum(highest, score.amax(0))
    return distances, indices, _is_highest(nearness, highest, indices[:, 0]) if both_ways else None


def _is_highest(nearness: Tensor, highest: Tensor, column: Tensor) -> Tensor:
    """Return which rows have the highest value of their column, (N,) bool; of several only the first."""
    row, none = torch.arange(len(nearness), device=nearness.device), len(nearness)
    candidates = torch.where(nearness == highest[column], row, none)
    return (
        torch.full_like(highest, none, dtype=torch.int64).scatter_reduce_(0, column, candidates, "amin")[column] == row
    )


def _scores(queries: Tensor, base: Tensor, base_length: Tensor) -> Tensor:
    """Compute what is largest where a distance is smallest: 2 q b - |b|^2, (N, M) float32, or int32 for int8."""
    if queries.dtype == torch.int8:
        return torch._int_mm(queries, base.T).mul_(2).sub_(base_length)
    return torch.addmm(-base_length, queries, base.T, alpha=2)


def _squared_lengths(vectors: Tensor) -> Tensor:
    if vectors.dtype == torch.int8:
        return vectors.int().square().sum(1, dtype=torch.int32)
    return vectors.square().sum(1)


def _multiplies_int8(vectors: Tensor) -> bool:
    """Whether products of these are computed in integers, without a loss: on CPUs that do so fast."""
    return vectors.dtype == torch.int8 and vectors.device.type == "cpu" and torch.cpu._is_vnni_supported()


def _lowest(kind: torch.dtype) -> float:
    return -torch.inf if kind.is_floating_point else torch.iinfo(kind).min


def _largest(score: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the top k of each row."""
    if score.device.type == "cpu" and k <= _FEW:
        return _largest_of_few(score, k)
    width = score.shape[1] // _GROUP
    if k == 1 or width < k:
        return score.topk(k, dim=1) if k > 1 else score.max(1, keepdim=True)
    # Those of the k groups of columns with the largest maxima, which takes one pass over the matrix; group i holds columns i,
    # i + width, i + 2 width, ...
    groups = score[:, : width * _GROUP].unflatten(1, (_GROUP, width))
    largest = groups.amax(1).topk(k, dim=1).indices[:, None].expand(-1, _GROUP, -1)
    column = torch.arange(score.shape[1], device=score.device)
    every = column[: width * _GROUP].view(_GROUP, 1, width).expand(-1, len(score), -1).transpose(0, 1)
    rest = slice(width * _GROUP, None)
    values = torch.cat([groups.gather(2, largest).flatten(1), score[:, rest]], 1)
    columns = torch.cat([every.gather(2, largest).flatten(1), column[rest].expand(len(score), -1)], 1)
    best = values.topk(k, dim=1)
    return best.values, columns.gather(1, best.indices)


def _largest_of_few(score: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the top k of each row by NumPy's argmax, ten times as fast as ``Tensor.max``, one after the other."""
    values, columns = [], []
    for number in range(k):
        columns.append(torch.from_numpy(score.numpy().argmax(1))[:, None])
        values.append(score.gather(1, columns[-1]))
        if number < k - 1:
            score.scatter_(1, columns[-1], _lowest(score.dtype))
    found, where = torch.cat(values, 1), torch.cat(columns, 1)
    score.scatter_(1, where, found)
    return found, where


def _use_faiss(queries: Tensor) -> bool:
    is_packed = queries.dtype == torch.uint8 and queries.device.type == "cpu"
    return is_packed and importlib.util.find_spec("faiss") is not None


def _with_faiss(queries: Tensor, base: Tensor, k: int) -> tuple[Tensor, Tensor]:
    index = require("faiss", extra="eval").IndexBinaryFlat(8 * base.shape[1])
    index.add(base.contiguous().numpy())
    distance, neighbor = index.search(queries.contiguous().numpy(), k)
    return torch.from_numpy(distance).float(), torch.from_numpy(neighbor)


def _is_finite(descriptors: Tensor) -> Tensor:
    """Return which rows have no NaN or infinity, (N,) bool."""
    if not descriptors.is_floating_point():
        return torch.ones(len(descriptors), dtype=torch.bool, device=descriptors.device)
    return descriptors.sum(1, dtype=torch.float64).isfinite()


def as_vectors(descriptors: Tensor) -> Tensor:
    """Convert descriptors to float32 vectors, packed bits to signs."""
    return unpack_bits(descriptors).float() * 2 - 1 if descriptors.dtype == torch.uint8 else descriptors.float()


def _exact_vectors(descriptors: Descriptors) -> Tensor:
    """Convert descriptors to float64, packed bits to 0 and 1, whose squared distance is the Hamming distance."""
    values = torch.as_tensor(descriptors)
    return unpack_bits(values).double() if values.dtype == torch.uint8 else values.double()


def _rounded(squared: Tensor, descriptors: Tensor) -> Tensor:
    """Compute distances from squares: the root for vectors, the square itself for packed bits."""
    tidy = ((squared / _STEP).round() * _STEP).clamp(min=0.0)
    return tidy if descriptors.dtype == torch.uint8 else tidy.sqrt()
