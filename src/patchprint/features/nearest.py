"""Exact nearest neighbours among prints: matrix products on torch for vectors, popcount in FAISS for packed bits.

torch is faster than FAISS on vectors at the sizes of one picture, FAISS's popcount several times faster than any product of
vectors (results/speed/matching.json, made by ``perf/speed/matching.py``); where FAISS is not installed, bits go through
torch as well.
"""

from __future__ import annotations

import importlib.util
from typing import Literal

import torch
from torch import Tensor

from patchprint.errors import UserError
from patchprint.extras import require

Backend = Literal["auto", "torch", "faiss"]
_CHUNK_CELLS = 1 << 23  # distances held at a time


def nearest(queries: Tensor, base: Tensor, k: int = 1, backend: Backend = "auto") -> tuple[Tensor, Tensor]:
    """The k nearest base prints of every query: Euclidean distance, or Hamming distance for packed bits (uint8).

    Shape:
        queries (N, D), base (M, D) -> distance (N, k) float32 in ascending order, index (N, k) int64. Where M < k the
        distance is infinite and the index -1.
    """
    if queries.shape[1] != base.shape[1] or queries.dtype != base.dtype:
        raise UserError(f"cannot compare prints of {_describe(queries)} with prints of {_describe(base)}")
    distance = torch.full((len(queries), k), torch.inf)
    index = torch.full((len(queries), k), -1, dtype=torch.int64)
    available = min(k, len(base))
    if len(queries) and available:
        search = _with_faiss if _use_faiss(queries, backend) else _with_torch
        found_distance, found_index = search(queries, base, available)
        distance[:, :available], index[:, :available] = found_distance.cpu(), found_index.cpu()
    return distance, index


def nearest_inconsistent(queries: Tensor, base: Tensor, first: Tensor, xy: Tensor, radius: float) -> Tensor:
    """Distance to the nearest base print that lies farther than ``radius`` pixels from the first neighbour.

    Shape:
        first (N,) int64 index of the first neighbour; xy (M, 2) positions of the base prints -> (N,) float32, infinite
        where no print lies that far away.
    """
    result = []
    bits = queries.dtype == torch.uint8
    queries, base = _as_vectors(queries), _as_vectors(base)
    half_norm = base.square().sum(1) / 2
    rows = max(1, _CHUNK_CELLS // max(1, len(base)))
    for part, chosen in zip(queries.split(rows), first.split(rows), strict=True):
        score = part @ base.T - half_norm
        # The exact mode: pixel positions are large numbers, and the matrix product loses whole pixels of their distance.
        away = torch.cdist(xy[chosen], xy, compute_mode="donot_use_mm_for_euclid_dist")
        score[away <= radius] = -torch.inf
        result.append((part.square().sum(1) - 2 * score.max(1).values).clamp(min=0))
    squared = torch.cat(result) if result else torch.zeros(0)
    return squared / 4 if bits else squared.sqrt()


def _with_torch(queries: Tensor, base: Tensor, k: int) -> tuple[Tensor, Tensor]:
    bits = queries.dtype == torch.uint8
    queries, base = _as_vectors(queries), _as_vectors(base)
    half_norm = base.square().sum(1) / 2
    rows = max(1, _CHUNK_CELLS // len(base))
    distances, indices = [], []
    for part in queries.split(rows):
        score = part @ base.T - half_norm  # largest where |q - b|^2 = |q|^2 - 2 score is smallest
        best, index = _largest(score, k)
        squared = (part.square().sum(1, keepdim=True) - 2 * best).clamp(min=0)
        distances.append(squared / 4 if bits else squared.sqrt())  # two signs that differ are 2 apart
        indices.append(index)
    return torch.cat(distances), torch.cat(indices)


def _largest(score: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Top k by repeated maxima, which beat torch.topk on a CPU for the small k of matching; overwrites ``score``."""
    if k > 4:
        best, index = score.topk(k, dim=1)
        return best, index
    values, indices = [], []
    for _ in range(k):
        value, index = score.max(1, keepdim=True)
        score.scatter_(1, index, -torch.inf)
        values.append(value)
        indices.append(index)
    return torch.cat(values, 1), torch.cat(indices, 1)


def _with_faiss(queries: Tensor, base: Tensor, k: int) -> tuple[Tensor, Tensor]:
    faiss = require("faiss", extra="eval")
    bits = queries.dtype == torch.uint8
    if not bits:
        queries, base = queries.float(), base.float()
    width = base.shape[1]
    index = faiss.IndexBinaryFlat(8 * width) if bits else faiss.IndexFlatL2(width)
    index.add(base.contiguous().numpy())
    distance, neighbor = index.search(queries.contiguous().numpy(), k)
    distances = torch.from_numpy(distance).float()
    return distances if bits else distances.clamp(min=0).sqrt(), torch.from_numpy(neighbor)


def _use_faiss(queries: Tensor, backend: Backend) -> bool:
    if backend == "auto":
        return queries.dtype == torch.uint8 and queries.device.type == "cpu" and bool(importlib.util.find_spec("faiss"))
    if backend not in ("torch", "faiss"):
        raise UserError(f"unknown backend {backend!r}; known are auto, torch and faiss")
    return backend == "faiss"


def _as_vectors(descriptors: Tensor) -> Tensor:
    """float32 vectors; packed bits become signs."""
    if descriptors.dtype != torch.uint8:
        return descriptors.float()
    shifts = torch.arange(8, dtype=torch.uint8, device=descriptors.device)
    return ((descriptors[:, :, None] >> shifts) & 1).flatten(1).float() * 2 - 1


def _describe(descriptors: Tensor) -> str:
    unit = (
        "bytes of packed bits"
        if descriptors.dtype == torch.uint8
        else f"{descriptors.dtype} values".replace("torch.", "")
    )
    return f"{descriptors.shape[1]} {unit}"
