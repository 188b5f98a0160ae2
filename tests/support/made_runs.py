"""Folders of training runs as ``patchprint train`` leaves them, made up in a moment, and results of benchmarks."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from patchprint.benchmarks.ubc import HARDEST, hardest_to_json
from patchprint.metrics.verification import curves
from patchprint.training import resolve
from patchprint.training.diagnostics import BINS


def write_run(folder: Path, fpr95: float = 0.3, steps: int = 12, recipe: str = "hardnet", every: int = 1) -> Path:
    """A run that logged ``every`` so many steps, and was judged twice."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(steps)
    lines: list[dict[str, Any]] = [
        {
            "step": step,
            "loss/total": 1.0 / step + 0.01 * float(random.random()),
            **{f"loss/{name}": value for name, value in _ANGLES.items()},
            "distance/positive": 0.5,
            "distance/negative": 1.0,
            "norm/mean": 11.0,
            "norm/variance": 3.0,
            "lr": 1.0,
            "patches_per_second": 100.0 + step,
        }
        for step in range(every, steps + 1, every)
    ]
    judged = (steps // 2, steps)
    lines += [{"step": s, "validation/fpr95": fpr95 * (2 - s / steps), "validation/confusion": 0.3} for s in judged]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "config.json").write_text(json.dumps(resolve(recipe, steps=steps, data=("sets/liberty",)).to_json()))
    angles = [{"step": step, **{name: random.integers(0, 9, BINS).tolist() for name in _NAMES}} for step in judged]
    (folder / "angles.jsonl").write_text("".join(json.dumps(line) + "\n" for line in angles))
    call = {"first_step": 0, "last_step": steps, **made_cost(f"patchprint train {recipe} --out {folder.name}")}
    (folder / "calls.jsonl").write_text(json.dumps(call) + "\n")
    return folder


def verification_result(model: str, shift: float, benchmark: str = "ubc") -> dict[str, Any]:
    """A result with curves; matching pairs lie ``shift`` nearer than others, on average."""
    random = np.random.default_rng(0)
    is_match = np.arange(400) < 200
    distance = np.clip(random.normal(1.2, 0.15, 400) - shift * is_match, 0, 2)
    return {
        "benchmark": benchmark,
        "settings": {"pairs": 400, "split": "all"},
        "model": {"name": model, "sha256": "0123456789abcdef", "patch_scale": 12.0},
        "data": {"path": "sets/made", "sha256": "made"},
        "seed": 0,
        "scores": {
            "fpr95": 100 * (1 - shift),
            "roc_auc": 0.9,
            "pair_list": "drawn",
            "curves": curves(distance, is_match),
            "hardest": hardest_to_json(
                {
                    name: values
                    for kind in HARDEST
                    for name, values in (
                        (kind, random.integers(0, 255, (3, 2, 32, 32), np.uint8)),
                        (f"{kind}_distance", np.array([1.2, 1.1, 1.0])),
                    )
                }
            ),
        },
        "run": made_cost(f"patchprint eval {benchmark} --model {model}"),
    }


def oxford_result(model: str, value: float) -> dict[str, Any]:
    return {
        "benchmark": "oxford",
        "settings": {"px": 4.0},
        "model": {"name": model, "sha256": "0123456789abcdef", "patch_scale": 12.0},
        "data": {"path": "x/oxford", "sha256": "d"},
        "seed": 0,
        "scores": {"map": value, "sequences": {"graf": value / 2, "wall": value}},
        "run": made_cost(f"patchprint eval oxford --model {model}"),
    }


def made_cost(command: str) -> dict[str, Any]:
    return {
        "command": command,
        "version": "0.1.0",
        "machine": {"cpu": "a processor", "cores": 2, "gpu": None, "python": "3.11", "torch": "2.13"},
        "date": "2026-01-02T03:04:05Z",
        "seconds": 12.5,
        "peak_mib": 345.6,
    }


_NAMES = ("positive", "negative")
_ANGLES = {
    "positive": 0.7,
    "positive_std": 0.2,
    "negative": 1.1,
    "negative_std": 0.1,
    "relative": -0.4,
    "relative_std": 0.25,
}
