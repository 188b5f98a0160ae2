"""Patch retrieval as on RomePatches: every patch is a query for the other patches of its point.

The papers do not define the query set, so here every patch is a query against all others (fact sheet, section 9).
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from tqdm import tqdm

from patchprint.benchmarks._benchmark import Benchmark, Run, Scores
from patchprint.benchmarks._stores import describe_patches, open_patches
from patchprint.common.errors import UserError
from patchprint.metrics.average_precision import Definition, average_precision, mean_average_precision
from patchprint.ops.distances import distance_matrix

# Test part, mAP in percent.
PUBLISHED = {"SIFT": 87.9, "CKN-grad": 88.1, "DOAP": 88.4, "DOAP binary": 86.8}
_CHUNK = 256


@dataclass(frozen=True)
class Settings:
    # Only the points of one part of a store; the published numbers are those of "test".
    split: Literal["all", "train", "val", "test"] = "all"
    # Most patches to rank; points are left out from the end.
    patches: int = 10_000
    # Mean precision at positives (matlab) or the trapezoid (python).
    ap: Definition = "matlab"


class Rome(Benchmark):
    """Patch retrieval: mAP."""

    settings = Settings
    scoring = frozenset({"ap"})

    def evaluate(self, run: Run, settings: Settings) -> Scores:
        """Return mean average precision over all queries."""
        arrays = run.predictions("descriptors", lambda: _export(run, settings))
        descriptors, point = torch.from_numpy(arrays["descriptors"]), arrays["point"]
        values = []
        for start in tqdm(range(0, len(point), _CHUNK), desc="queries", disable=None):
            matrix = distance_matrix(descriptors[start : start + _CHUNK], descriptors).cpu().numpy()
            for row, distance in enumerate(matrix, start=start):
                others = np.arange(len(point)) != row
                is_same = (point == point[row])[others]
                values.append(average_precision(distance[others], is_same, definition=settings.ap))
        return {"map": mean_average_precision(values), "queries": len(values), "points": len(np.unique(point))}

    def headline(self, scores: Scores) -> dict[str, float]:
        return {"mAP": scores["map"]}

    def published(self, result: dict[str, Any]) -> dict[str, dict[str, float]]:
        if result["scores"]["queries"] != 10_000 or result["settings"]["split"] != "test":
            return {}
        return {name: {"mAP": value / 100} for name, value in PUBLISHED.items()}


def _export(run: Run, settings: Settings) -> dict[str, np.ndarray]:
    source = open_patches(run, settings.split)
    num_views = source.num_views.cpu()
    kept = int((torch.cumsum(num_views, 0) <= settings.patches).sum())
    if kept < 2:
        raise UserError(f"{run.data_name} has fewer than two points within --patches {settings.patches}")
    points = torch.repeat_interleave(torch.arange(kept), num_views[:kept])
    first = torch.cumsum(num_views[:kept], 0) - num_views[:kept]
    views = torch.arange(len(points)) - first[points]
    return {"descriptors": describe_patches(run, source, points, views).numpy(), "point": points.numpy()}
