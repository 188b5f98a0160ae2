"""The protocols of the papers: a model is run over data, its predictions are kept, and then they are scored.

``BENCHMARKS`` maps a name to its settings and its function ``evaluate(setup, settings) -> scores``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Benchmark:
    """Where a benchmark lives, and what it measures in one line."""

    summary: str
    module: str
    settings_name: str = "Settings"
    function_name: str = "evaluate"

    @property
    def settings(self) -> type:
        return getattr(self._load(), self.settings_name)

    @property
    def evaluate(self) -> Callable[[Any, Any], dict[str, Any]]:
        return getattr(self._load(), self.function_name)

    def _load(self) -> Any:
        return importlib.import_module(f"patchprint.benchmarks.{self.module}")


BENCHMARKS = {
    "ubc": Benchmark("patch verification on pairs: FPR95", "ubc"),
    "hpatches": Benchmark("patch verification, matching and retrieval at three strengths of noise", "hpatches"),
    "rome": Benchmark("patch retrieval: mAP", "rome"),
    "oxford": Benchmark("matching along picture sequences with known homographies: mAP", "oxford"),
    "pairs": Benchmark("200 random keypoints: right matches, and whether the homography is found", "pairs"),
    "eth": Benchmark("photos to a sparse 3D model, beside COLMAP's own SIFT", "eth"),
    "rotation": Benchmark(
        "matching a picture with itself turned by 0 to 180 degrees", "robustness", "RotationSettings", "rotation"
    ),
    "scale": Benchmark("matching a picture with itself shrunk 1 to 4 times", "robustness", "ScaleSettings", "scale"),
}
