"""What came of the runs of a study: one record for each run, one row for each case."""

from __future__ import annotations

import fnmatch
import math
import statistics
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from patchprint.studies._study import Case, Column


class Summary(NamedTuple):
    """Mean and sample standard deviation over seeds; no spread of one value, nothing of none."""

    mean: float | None
    spread: float | None


class Series(NamedTuple):
    """A number over the steps of a run."""

    steps: list[int]
    values: list[float]


@dataclass(frozen=True)
class RunRecord:
    """One run: what it scored and logged, or why it did not come to its end ("" where it was not asked for)."""

    name: str
    seed: int
    result: dict[str, Any] | None = None
    metrics: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    def value(self, column: Column) -> float | None:
        """A number of this run, None where it has none."""
        measure, _, name = column.value.partition(".")
        if self.result is None:
            return None
        if measure == "end":
            found = next((line[name] for line in reversed(self.metrics) if name in line), None)
        else:
            measured = self.result["scores"][measure]
            found = measured["headline"].get(name, _follow(measured["scores"], name))
        return column.scale * found if isinstance(found, int | float) and math.isfinite(found) else None

    def series(self, pattern: str) -> dict[str, Series]:
        """What was logged over training under names that match ``pattern``, by name."""
        names = dict.fromkeys(name for line in self.metrics for name in line if fnmatch.fnmatchcase(name, pattern))
        lines = {name: [line for line in self.metrics if name in line] for name in names}
        return {name: Series([x["step"] for x in found], [x[name] for x in found]) for name, found in lines.items()}


@dataclass(frozen=True)
class Row:
    """A case and its runs, in the order of the seeds."""

    case: Case
    runs: tuple[RunRecord, ...]

    def values(self, column: Column) -> dict[int, float]:
        """The number of every run that has one, by seed."""
        found = {run.seed: run.value(column) for run in self.runs}
        return {seed: value for seed, value in found.items() if value is not None}

    def summary(self, column: Column) -> Summary:
        return summarize(list(self.values(column).values()))

    def gain(self, baseline: Row, column: Column) -> Summary:
        """Difference to another row, seed by seed."""
        ours, theirs = self.values(column), baseline.values(column)
        return summarize([ours[seed] - theirs[seed] for seed in ours if seed in theirs])


def summarize(values: list[float]) -> Summary:
    return Summary(
        statistics.fmean(values) if values else None,
        statistics.stdev(values) if len(values) > 1 else None,
    )


def baseline_of(row: Row, rows: list[Row], label: str, value: str) -> Row | None:
    """The row that differs from ``row`` only in having ``value`` as ``label``; None for that row itself."""
    if row.case.labels[label] == value:
        return None
    wanted = {**row.case.labels, label: value}
    return next((other for other in rows if other.case.labels == wanted), None)


def _follow(scores: Any, path: str) -> Any:
    """What lies in nested scores under a path with dots; None where nothing does."""
    for part in path.split("."):
        scores = scores.get(part) if isinstance(scores, dict) else None
    return scores
