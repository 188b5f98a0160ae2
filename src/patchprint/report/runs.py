"""Training runs as sections of a page: what came of each, their curves in common figures, and their settings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchprint.errors import UserError
from patchprint.extras import require
from patchprint.reading import read_json
from patchprint.report.page import Figure, Section, Table, best_of
from patchprint.training.held_out import spelled
from patchprint.training.run_folder import read_metrics

# What is drawn, by the first part of its name, in this order.
_SHOWN = {"validation": "held-out points", "test": "test sets", "loss": "loss"}


@dataclass(frozen=True)
class Run:
    """The folder of a run: its settings, and the lines of metrics.jsonl."""

    folder: Path
    config: dict[str, Any]
    metrics: list[dict[str, Any]]

    def curve(self, name: str) -> list[tuple[int, float]]:
        """Steps and values of one number."""
        return [(line["step"], line[name]) for line in self.metrics if name in line]


def read_run(folder: Path) -> Run:
    """A folder that ``patchprint train`` wrote."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        raise UserError(f"{folder} is not a training run: it has no metrics.jsonl")
    config = folder / "config.json"
    settings = read_json(config, "the settings of a run") if config.is_file() else {}
    return Run(folder, settings, read_metrics(path))


def run_sections(runs: Sequence[Run]) -> list[Section]:
    """One section for all runs, with a line for each of them in every figure, and one for the settings of each."""
    if not runs:
        return []
    labels = _labels(runs)
    names = {
        name for run in runs for line in run.metrics for name, value in line.items() if isinstance(value, int | float)
    }
    drawn = sorted((name for name in names if name.partition("/")[0] in _SHOWN), key=_order)
    together = Section(
        "Training",
        tables=[_table(runs, labels, [name for name in drawn if _is_measured(name)])],
        figures=[_figure(runs, labels, name) for name in drawn],
    )
    settings = [
        Section(f"Settings of {label}", code=json.dumps(run.config, indent=2, ensure_ascii=False))
        for run, label in zip(runs, labels, strict=True)
        if run.config
    ]
    return [together, *settings]


def title_of(name: str) -> str:
    """What a number of metrics.jsonl is called: "FPR95, held-out points", "loss", "loss: positive"."""
    group, _, what = name.partition("/")
    if _is_measured(name):
        return f"{spelled(what)}, {_SHOWN[group]}"
    return _SHOWN[group] if what == "total" else f"{_SHOWN[group]}: {what.replace('_', ' ')}"


def _is_measured(name: str) -> bool:
    return not name.startswith("loss/")


def _order(name: str) -> tuple[int, bool, str]:
    group, _, what = name.partition("/")
    return list(_SHOWN).index(group), what != "total", what


def _labels(runs: Sequence[Run]) -> list[str]:
    """Names of folders; whole paths where two have the same."""
    count = Counter(run.folder.resolve().name for run in runs)
    return [name if count[name := run.folder.resolve().name] == 1 else str(run.folder) for run in runs]


def _table(runs: Sequence[Run], labels: Sequence[str], measured: Sequence[str]) -> Table:
    """A row for each run: its recipe, its steps, and the least of every number that was measured."""
    least = [[min((value for _, value in run.curve(name)), default=None) for name in measured] for run in runs]
    rows = [
        [label, str(run.config.get("recipe", "-")), str(run.metrics[-1]["step"] if run.metrics else 0)]
        + ["-" if value is None else f"{100 * value:.2f} %" for value in values]
        for run, label, values in zip(runs, labels, least, strict=True)
    ]
    best = set()
    for column in range(len(measured)):
        there = [
            (row[column + 3], value)
            for row, values in zip(rows, least, strict=True)
            if (value := values[column]) is not None
        ]
        if len(there) > 1:
            best.add(
                best_of(column + 3, [cell for cell, _ in there], [value for _, value in there], lower_is_better=True)
            )
    header = ["run", "recipe", "steps", *map(title_of, measured)]
    return Table(header, rows, "Of what was measured, the least over the run.", frozenset(best))


def _figure(runs: Sequence[Run], labels: Sequence[str], name: str) -> Figure:
    require("matplotlib", extra="images").use("agg")
    pyplot = require("matplotlib.pyplot", extra="images")
    factor, unit = (100, " (%)") if _is_measured(name) else (1, "")
    figure, axes = pyplot.subplots(figsize=(7, 2.5))
    for run, label in zip(runs, labels, strict=True):
        points = run.curve(name)
        if points:
            steps, values = zip(*points, strict=True)
            axes.plot(
                steps, [factor * value for value in values], marker="o" if len(points) == 1 else None, label=label
            )
    axes.set(xlabel="step", ylabel=title_of(name) + unit)
    if len(runs) > 1:
        axes.legend(frameon=False, fontsize="small")
    try:
        return Figure.from_plot(figure, title_of(name))
    finally:
        pyplot.close(figure)
