"""A training run as a section of a page: what was trained, and its curves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchprint.errors import UserError
from patchprint.extras import require
from patchprint.report.page import Figure, Section
from patchprint.training.run_folder import read_metrics

_SKIPPED = ("step", "seconds", "lr")


@dataclass(frozen=True)
class Run:
    """The folder of a run: its settings, and the lines of metrics.jsonl."""

    folder: Path
    config: dict[str, Any]
    metrics: list[dict[str, Any]]


def read_run(folder: Path) -> Run:
    """A folder that ``patchprint train`` wrote."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        raise UserError(f"{folder} is not a training run: it has no metrics.jsonl")
    config = folder / "config.json"
    try:
        settings = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    except ValueError:
        raise UserError(f"{config} is damaged") from None
    return Run(folder, settings, read_metrics(path))


def run_section(run: Run) -> Section:
    """Losses and FPR95 over steps."""
    names = {name for line in run.metrics for name, value in line.items() if isinstance(value, int | float)}
    chosen = sorted(
        name for name in names if name not in _SKIPPED and ("loss" in name or "fpr95" in name or name == "total")
    )
    figures = [_curve(run, name) for name in chosen]
    settings = json.dumps(run.config, indent=2, ensure_ascii=False) if run.config else ""
    last = run.metrics[-1]["step"] if run.metrics else 0
    return Section(f"Run {run.folder.name}", [f"{last} steps."], figures=figures, code=settings)


def _curve(run: Run, name: str) -> Figure:
    require("matplotlib", extra="images").use("agg")
    pyplot = require("matplotlib.pyplot", extra="images")
    points = [(line["step"], line[name]) for line in run.metrics if name in line]
    figure, axes = pyplot.subplots(figsize=(7, 2.5))
    axes.plot(*zip(*points, strict=True))
    axes.set(xlabel="step", ylabel=name)
    try:
        return Figure.from_plot(figure, f"{name}, last {points[-1][1]:.4g}")
    finally:
        pyplot.close(figure)
