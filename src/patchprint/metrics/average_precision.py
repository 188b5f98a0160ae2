"""Average precision of a ranked list, safe against ties, in the two definitions that the HPatches papers mix.

``matlab``: the mean of the precision at every positive (the paper's figures, scikit-learn). ``python``: the trapezoid
under the precision-recall curve that starts at precision 1 (the released Python scripts). With the precision ``p_k`` after
rank k, a positive at rank k adds ``p_k`` or ``(p_k + p_{k-1}) / 2``. The default is the exact expectation over all orders of
tied entries: constant descriptors score the base rate (plus a term of size log(n) / n), and shuffling changes nothing.
"""

from typing import Any, Literal

import numpy as np
import torch

from patchprint.common.errors import UserError

Definition = Literal["matlab", "python"]
Ties = Literal["expectation", "file-order"]


def as_numpy(values: Any) -> np.ndarray:
    """Arrays, sequences or tensors of any device as a numpy array."""
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def finite_distances(distance: Any) -> np.ndarray:
    """Distances (N,) in float64; NaN has no rank, so it is refused."""
    result = as_numpy(distance).astype(np.float64)
    if result.ndim != 1:
        raise UserError(f"distances must have shape (N,), got {result.shape}")
    if np.isnan(result).any():
        raise UserError(f"{int(np.isnan(result).sum())} of {len(result)} distances are NaN: check the descriptors")
    return result


def average_precision(
    distance: Any,
    correct: Any,
    num_positives: float | None = None,
    definition: Definition = "matlab",
    ties: Ties = "expectation",
) -> float:
    """Average precision of a list ranked by distance, smallest first.

    Args:
        correct: bool, or the probability of being correct where a choice among equals was not the descriptor's.
        num_positives: how many there are to find, in the list or not (misses cap the recall); default: those in the list.
        ties: ``file-order`` is what the released scripts do, whose stable sort calls constant descriptors perfect when
            positives come first.

    Shape:
        distance (N,), correct (N,) -> float in [0, 1]; NaN where there is nothing to find.
    """
    distance, gain = finite_distances(distance), as_numpy(correct).astype(np.float64)
    if distance.shape != gain.shape:
        raise UserError(f"distances {distance.shape} and labels {gain.shape} must have the same shape")
    total = gain.sum() if num_positives is None else float(num_positives)
    if total < gain.sum() - 1e-9:
        raise UserError(f"num_positives is {total:g}, but {gain.sum():g} entries of the list are correct")
    if total == 0:
        return float("nan")
    # What lies beyond the last positive changes nothing, and is most of a retrieval list.
    needed = distance <= distance[gain > 0].max() if gain.any() else np.zeros(len(gain), dtype=bool)
    distance, gain = distance[needed], gain[needed]
    order = np.argsort(distance, kind="stable")
    distance, gain = distance[order], gain[order]
    starts = np.arange(len(gain)) if ties == "file-order" else _tie_starts(distance)
    here, before = _expected_precision_sums(gain, starts)
    return float((here.sum() if definition == "matlab" else (here.sum() + before.sum()) / 2) / total)


def precision_recall(distance: Any, correct: Any, num_positives: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Precision and recall after each of the T distinct distances, (T,) each: a threshold cannot part what is tied."""
    distance, gain = finite_distances(distance), as_numpy(correct).astype(np.float64)
    order = np.argsort(distance, kind="stable")
    distance, gain = distance[order], gain[order]
    ends = np.append(_tie_starts(distance)[1:], len(gain)) if len(gain) else np.zeros(0, dtype=np.int64)
    found = np.append(0.0, np.cumsum(gain))[ends]
    return found / np.maximum(ends, 1), found / max(gain.sum() if num_positives is None else num_positives, 1e-300)


def mean_average_precision(values: Any) -> float:
    """Mean over lists (N,), leaving out those with nothing to find (NaN)."""
    values = as_numpy(values).astype(np.float64)
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else float("nan")


def _tie_starts(ordered: np.ndarray) -> np.ndarray:
    """Where a new value begins in a sorted array (N,) -> (G,)."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.zeros(0, dtype=np.int64)


def _expected_precision_sums(gain: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected precision at, and just before, every rank, times the chance that a positive stands there.

    A tie group of n entries, correct with probability q_i, follows N entries of which F are expected to be correct. An
    entry stands at place j = 1..n of its group with chance 1/n, and then each other one is before it with chance
    (j-1)/(n-1). Summed over the entries: ``(p (F+1) + (j-1) (p^2 - sum q^2) / (n-1)) / (n (N+j))`` with p = sum q.
    """
    if not len(gain):
        return gain, gain
    sizes = np.diff(np.append(starts, len(gain)))
    expected, squares = np.add.reduceat(gain, starts), np.add.reduceat(gain**2, starts)
    found = np.cumsum(expected) - expected
    pairs = np.where(sizes > 1, (expected**2 - squares) / np.maximum(sizes - 1, 1), 0.0)
    group = np.repeat(np.arange(len(starts)), sizes)
    rank = np.arange(1, len(gain) + 1)
    ahead = (expected * found)[group] + (rank - 1 - starts[group]) * pairs[group]
    here = (ahead + expected[group]) / (sizes[group] * rank)
    # The curve starts at precision 1, before anything was returned.
    before = np.where(rank == 1, expected[group], ahead / np.maximum(rank - 1, 1)) / sizes[group]
    return here, before
