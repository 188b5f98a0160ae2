"""Tables of whole pipelines, ours and those of others, made from ``results/pipelines``; and of the choice of keypoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.markdown import read, table

UNIT = "opencv-sift"  # whose time is one
_CHOICES = ("keypoint-choice", "keypoint-choice-hessian")
_RULES = ("mutual", "mutual+ratio", "fginn")  # of matching


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


def keypoint_choice(results: Path) -> str:
    """What is left of 2000 keypoints from step to step, and the geometry found in the end, by the way they were found."""
    result, of_hessian = (read(results / "experiments" / f"{name}.json") for name in _CHOICES)
    rows = []
    for name, kinds in (result["scores"] | of_hessian["scores"]).items():
        warped, real = kinds["warped"], kinds["real"]
        steps = [warped[step] for step in ("places", "inside", "repeated")]
        steps += [warped[rule]["right"] for rule in _RULES] + [real[rule]["right"] for rule in _RULES]
        areas = [of[rule][area] for of, area in ((warped, "AUC 3 px"), (real, "AUC 10 deg")) for rule in _RULES[1:]]
        rows.append([name, *(f"{step:.0f}" for step in steps), *(f"{area:.3f}" for area in areas)])
    rules = [f"`{rule}`" for rule in _RULES]
    header = ["2000 keypoints", "places", "seen", "repeated", *(f"right, {rule}" for rule in rules)]
    header += [f"real: right, {rule}" for rule in rules]
    header += [f"AUC {limit}, {rule}" for limit in ("3 px", "10 deg") for rule in rules[1:]]
    counts = {kind: next(iter(result["scores"].values()))[kind]["pairs"] for kind in ("warped", "real")}
    caption = f"`{result['model']['name']}`, means of {counts['warped']} warped and {counts['real']} real pairs"
    return table(header, rows, f"{caption}: results/experiments/keypoint-choice*.json.")


def _about(result: dict[str, Any]) -> list[str]:
    how = result["scores"]["pipeline"]
    finds, _, _ = how["keypoints"].partition(";")
    return [f"`{result['model']['name']}`", f"{finds} ({result['scores']['keypoints']:.0f})", how["matches"]]


def _scores(scores: dict[str, Any]) -> list[str]:
    return [f"{scores['right']:.0f}", f"{scores['precision']:.2f}", *(f"{area:.3f}" for area in scores["auc"].values())]


def _times(scores: dict[str, Any], unit: dict[str, Any]) -> list[str]:
    return [f"{scores[name] / unit[name]:.2g}" for name in ("cpu_ms_per_image", "cpu_ms_per_pair")]
