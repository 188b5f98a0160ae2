"""What all metrics check before they count."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from patchprint.common.errors import UserError


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


def labeled_distances(distance: Any, is_match: Any) -> tuple[np.ndarray, np.ndarray]:
    """Distances (N,) float64 and labels (N,) bool, with at least one pair of each kind."""
    distance, matching = finite_distances(distance), as_numpy(is_match).astype(bool)
    if distance.shape != matching.shape:
        raise UserError(f"distances {distance.shape} and labels {matching.shape} must have the same shape")
    if not matching.any() or matching.all():
        raise UserError(f"need matching and non-matching pairs, got {int(matching.sum())} of {len(matching)} matching")
    return distance, matching
