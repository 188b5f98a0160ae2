"""Patch retrieval as on RomePatches: every patch asks for the other patches of its point.

The papers do not define the query set, so here every patch is a query against all others (fact sheet, section 9).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from tqdm import tqdm

from patchprint.benchmarks.descriptors import distance_matrix
from patchprint.benchmarks.setup import Setup
from patchprint.benchmarks.stored import describe, open_for
from patchprint.errors import UserError
from patchprint.metrics.ranking import Definition, average_precision, mean_average_precision

_CHUNK = 256


@dataclass(frozen=True)
class Settings:
    # RomePatches has a train and a test part, which stores keep as "train" and "val".
    split: Literal["all", "train", "val"] = "all"
    # Most patches to rank; points are left out from the end.
    patches: int = 10_000
    # Mean precision at positives (matlab) or the trapezoid (python).
    ap: Definition = "matlab"


def evaluate(setup: Setup, settings: Settings) -> dict[str, Any]:
    """Mean average precision over all queries."""
    arrays = setup.predictions({"rome": settings.split, "patches": settings.patches}, lambda: _export(setup, settings))
    descriptors, point = torch.from_numpy(arrays["descriptors"]), arrays["point"]
    values = []
    for start in tqdm(range(0, len(point), _CHUNK), desc="queries", disable=None):
        matrix = distance_matrix(descriptors[start : start + _CHUNK], descriptors).cpu().numpy()
        for row, distance in enumerate(matrix, start=start):
            others = np.arange(len(point)) != row
            values.append(average_precision(distance[others], (point == point[row])[others], definition=settings.ap))
    return {"map": mean_average_precision(values), "queries": len(values), "points": len(np.unique(point))}


def _export(setup: Setup, settings: Settings) -> dict[str, np.ndarray]:
    source = open_for(setup, settings.split)
    num_views = source.num_views.cpu()
    kept = int((torch.cumsum(num_views, 0) <= settings.patches).sum())
    if kept < 2:
        raise UserError(f"{setup.data} has fewer than two points within --patches {settings.patches}")
    points = torch.repeat_interleave(torch.arange(kept), num_views[:kept])
    first = torch.cumsum(num_views[:kept], 0) - num_views[:kept]
    views = torch.arange(len(points)) - first[points]
    return {"descriptors": describe(setup, source, points, views).numpy(), "point": points.numpy()}
