"""Training runs on a page: their results, and their curves in shared charts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchprint.common.errors import UserError
from patchprint.common.safe_io import read_json
from patchprint.common.table import Table, best_of
from patchprint.report.charts import LONG, Chart, Line
from patchprint.report.page import Code, Part, Section, Text
from patchprint.training.held_out import spelled
from patchprint.training.run_folder import read_lines, read_metrics

# What is drawn, by the first part of its name, in this order.
_SHOWN = {
    "validation": "held-out points",
    "test": "test sets",
    "loss": "loss",
    "distance": "distance in the batch",
    "norm": "norm before normalization",
}
_MEASURED = ("validation", "test")


@dataclass(frozen=True)
class Run:
    """A training run: settings, lines of metrics.jsonl, and the cost of each call (calls.jsonl)."""

    folder: Path
    config: dict[str, Any]
    metrics: list[dict[str, Any]]
    calls: list[dict[str, Any]]
    label: str = ""

    def curve(self, name: str) -> list[tuple[int, float]]:
        """Return steps and values of a metric."""
        return [(line["step"], line[name]) for line in self.metrics if name in line]

    @property
    def steps(self) -> int:
        return self.metrics[-1]["step"] if self.metrics else 0


def read_run(folder: Path) -> Run:
    """Read a folder of ``patchprint train``."""
    path = folder / "metrics.jsonl"
    if not path.is_file():
        raise UserError(f"{folder} is not a training run: it has no metrics.jsonl")
    config, calls = folder / "config.json", folder / "calls.jsonl"
    settings = read_json(config, "the settings of a run") if config.is_file() else {}
    spent = read_lines(calls, "the calls of a run") if calls.is_file() else []
    return Run(folder, settings, read_metrics(path), spent, folder.resolve().name)


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """Read several runs; runs whose folders share a name are labeled by their path."""
    runs = [read_run(folder) for folder in folders]
    count = Counter(run.label for run in runs)
    named = [run.label if count[run.label] == 1 else str(run.folder) for run in runs]
    return [Run(run.folder, run.config, run.metrics, run.calls, name) for run, name in zip(runs, named, strict=True)]


def run_sections(runs: Sequence[Run]) -> list[Section]:
    """Return the validation results of all runs, and their curves."""
    if not runs:
        return []
    names = sorted(_names(runs), key=_order)
    charts: list[Part] = [_chart(runs, group) for group in _groups(names)]
    if any(len(line.x) > LONG for chart in charts if isinstance(chart, Chart) for line in chart.lines):
        charts.append(
            Text(f"Curves of more than {LONG} points are drawn as the mean of {LONG} stretches, all points behind it.")
        )
    table = _table(runs, [name for name in names if _is_measured(name)])
    return (
        [Section("Training", [table]), Section("Curves of training", charts)]
        if charts
        else [Section("Training", [table])]
    )


def settings_parts(runs: Sequence[Run]) -> list[Part]:
    """Return the settings of each run, collapsed."""
    return [
        Code(json.dumps(run.config, indent=2, ensure_ascii=False), f"Settings of {run.label}")
        for run in runs
        if run.config
    ]


def verdict(runs: Sequence[Run]) -> str:
    """Return a sentence with the best validation result."""
    names = sorted((name for name in _names(runs) if _is_measured(name)), key=_order)
    if not names:
        steps = ", ".join(f"{run.label}: {run.steps:,} steps" for run in runs)
        return f"Nothing was measured on held-out data. {steps}."
    name = next((each for each in names if each.endswith("/fpr95")), names[0])
    found = [(value, step, run) for run in runs for step, value in run.curve(name)]
    value, step, best = min(found, key=lambda each: each[0])
    measured = f"{title_of(name).replace(', ', ' on ', 1)} falls to {100 * value:.2f}\u00a0%"
    when = f"at step {step:,} of {best.steps:,}"
    return f"{measured} {when}." if len(runs) == 1 else f"Of {len(runs)} runs {best.label} is best: {measured} {when}."


def title_of(name: str) -> str:
    """Return the title of a metric: "FPR95, held-out points", "loss", "loss: positive"."""
    group, _, what = name.partition("/")
    if _is_measured(name):
        return f"{spelled(what)}, {_SHOWN[group]}"
    return _SHOWN[group] if what == "total" else f"{_SHOWN[group]}: {what.replace('_', ' ')}"


def _names(runs: Sequence[Run]) -> set[str]:
    names = {name for run in runs for line in run.metrics for name in line}
    return {name for name in names if "/" in name and name.partition("/")[0] in _SHOWN}


def _groups(names: Sequence[str]) -> Iterator[list[str]]:
    """Yield the metrics that share a chart: positives with negatives, and the norms of all samples."""
    groups: dict[str, list[str]] = {}
    for name in names:
        sample = name.startswith("norm/sample-")
        groups.setdefault("norm/samples" if sample else _without_sign(name), []).append(name)
    yield from groups.values()


def _without_sign(name: str) -> str:
    return name.replace("positive", "±").replace("negative", "±")


def _is_measured(name: str) -> bool:
    return name.partition("/")[0] in _MEASURED


def _order(name: str) -> tuple[int, bool, str, bool]:
    group, _, what = name.partition("/")
    return list(_SHOWN).index(group), what not in ("total", "fpr95"), _without_sign(what), "negative" in what


def _table(runs: Sequence[Run], measured: Sequence[str]) -> Table:
    """Return a row for each run: recipe, steps, and the minimum of each validation metric."""
    least = [[min((value for _, value in run.curve(name)), default=None) for name in measured] for run in runs]
    rows = [
        [run.label, str(run.config.get("recipe", "–")), f"{run.steps:,}"]
        + ["–" if value is None else f"{100 * value:.2f} %" for value in values]
        for run, values in zip(runs, least, strict=True)
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
    return Table(header, rows, "Of what was measured, the least over the run; lower is better.", frozenset(best))


def _chart(runs: Sequence[Run], names: Sequence[str]) -> Chart:
    """Return a chart with a line for each run and metric; with several runs, negatives are dashed."""
    factor, unit = (100, " (%)") if _is_measured(names[0]) else (1, "")
    lines = []
    for number, run in enumerate(runs):
        for place, name in enumerate(names):
            points = run.curve(name)
            if points:
                steps, values = zip(*points, strict=True)
                scaled = [factor * value for value in values]
                color = number if len(runs) > 1 else place
                lines.append(Line(_label(run, runs, name, names), steps, scaled, color, len(runs) > 1 and place > 0))
    title = title_of(names[0]) if len(names) == 1 else _title_of_group(names)
    what = _words(names[0]) if len(names) == 1 else names[0].partition("/")[0]
    return Chart(title, "step", what + unit, lines)


def _title_of_group(names: Sequence[str]) -> str:
    if names[0].startswith("norm/sample-"):
        return f"{_SHOWN['norm']}: {len(names)} samples"
    return title_of(names[0]).replace("positive", "positive and negative")


def _label(run: Run, runs: Sequence[Run], name: str, names: Sequence[str]) -> str:
    """Return the label of a line: the run if there are several, the metric if the chart has several or there is one run."""
    words = [run.label] if len(runs) > 1 else []
    return ", ".join(words + ([_words(name)] if len(names) > 1 or len(runs) == 1 else []))


def _words(name: str) -> str:
    """Return the last part of the name of a metric: "FPR95", "loss", "positive std"."""
    group, _, what = name.partition("/")
    return spelled(what) if _is_measured(name) else group if what == "total" else what.replace("_", " ")
