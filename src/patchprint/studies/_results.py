"""What came of the runs of a study: one record for each run, one row for each case."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
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
        if self.result is None:
            return None
        found = [self._find(value, column.at) for value in column.values]
        numbers = [each for each in found if isinstance(each, int | float) and math.isfinite(each)]
        divisor = 1.0 if column.over is None else self._find(column.over, column.at)
        return column.scale * statistics.fmean(numbers) / divisor if numbers and divisor else None

    def score(self, measure: str, path: str) -> Any:
        """What a measure found under a path with dots, of any kind; None where it found nothing."""
        return None if self.result is None else _follow(self.result["scores"].get(measure, {}).get("scores"), path)

    def _find(self, value: str, at: float) -> Any:
        assert self.result is not None
        source, _, name = value.partition(".")
        if source == "log":
            end = math.inf if at == 1 else at * self.result["settings"]["steps"]
            return next((line[name] for line in reversed(self.metrics) if name in line and line["step"] <= end), None)
        if source == "outcome":
            return _follow(self.result.get("outcome"), name)
        headline = self.result["scores"].get(source, {}).get("headline", {})
        return headline[name] if name in headline else self.score(source, name)

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


@dataclass(frozen=True)
class Group:
    """Rows that differ in nothing but labels that are left out; a number of it is their mean, seed by seed."""

    labels: dict[str, str]
    rows: tuple[Row, ...]

    def summary(self, column: Column) -> Summary:
        """Over the seeds that all rows have a number for."""
        values = [row.values(column) for row in self.rows]
        seeds = [seed for seed in values[0] if all(seed in each for each in values)]
        return summarize([statistics.fmean(each[seed] for each in values) for seed in seeds])

    def published(self, column: Column) -> float | None:
        values = [row.case.published.get(column.title) for row in self.rows]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if len(known) == len(values) else None


def grouped(rows: Sequence[Row], labels: Sequence[str]) -> list[Group]:
    """Rows by their values of these labels, in their order."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.case.labels[label] for label in labels), []).append(row)
    return [Group(dict(zip(labels, values, strict=True)), tuple(found)) for values, found in groups.items()]


def best_rows(rows: Sequence[Row], label: str, column: Column) -> list[Row]:
    """Of the rows that differ in ``label`` alone, the one with the best mean of a column."""
    found = []
    for group in grouped(rows, [name for name in rows[0].case.labels if name != label]):
        measured = [(row.summary(column).mean, row) for row in group.rows]
        done = [(mean, row) for mean, row in measured if mean is not None]
        pick = min if column.lower_is_better else max
        found.append(pick(done, key=lambda each: each[0])[1] if done else group.rows[0])
    return found


def without_label(row: Row, label: str) -> Row:
    """The row as if it had no such label."""
    labels = {name: value for name, value in row.case.labels.items() if name != label}
    return dataclasses.replace(row, case=dataclasses.replace(row.case, labels=labels))


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
