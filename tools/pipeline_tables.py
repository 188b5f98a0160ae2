"""Tables of whole pipelines, ours and those of others, made from ``results/pipelines``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.markdown import read, table

UNIT = "opencv-sift"  # whose time is one


def pipelines(data: str, judged_by: str, caption: str) -> Callable[[Path], str]:
    """Every pipeline that was run on ``data``, best first by the area under the curve up to ``judged_by``."""

    def make(results: Path) -> str:
        found = [read(path) for path in sorted((results / "pipelines").glob(f"{data}-*.json"))]
        found.sort(key=lambda result: -result["scores"]["auc"][judged_by])
        limits = list(found[0]["scores"]["auc"])
        unit = next(result["scores"] for result in found if result["model"]["name"] == UNIT)
        header = ["", "keypoints", "matches", "right", "precision", *(f"AUC {limit}" for limit in limits)]
        rows = [[*_about(result), *_scores(result["scores"]), *_times(result["scores"], unit)] for result in found]
        return table([*header, "time an image", "time a pair"], rows, f"{caption}: results/pipelines/.")

    return make


def _about(result: dict[str, Any]) -> list[str]:
    how = result["scores"]["pipeline"]
    finds, _, _ = how["keypoints"].partition(";")
    return [f"`{result['model']['name']}`", f"{finds} ({result['scores']['keypoints']:.0f})", how["matches"]]


def _scores(scores: dict[str, Any]) -> list[str]:
    return [f"{scores['right']:.0f}", f"{scores['precision']:.2f}", *(f"{area:.3f}" for area in scores["auc"].values())]


def _times(scores: dict[str, Any], unit: dict[str, Any]) -> list[str]:
    return [f"{scores[name] / unit[name]:.2g}" for name in ("cpu_ms_per_image", "cpu_ms_per_pair")]
