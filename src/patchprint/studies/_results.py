"""Results of a study: one record for each run, one row for each case, and the tables made of them."""

from __future__ import annotations

import fnmatch
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from patchprint.common.table import MISSING, Table

if TYPE_CHECKING:
    from patchprint.studies._study import Case, Column, Study


class Summary(NamedTuple):
    """Mean and sample standard deviation over seeds; None where there are too few values."""

    mean: float | None
    spread: float | None


class Series(NamedTuple):
    """A logged number over the steps of a run."""

    steps: list[int]
    values: list[float]


def series_of(metrics: Sequence[dict[str, Any]]) -> dict[str, Series]:
    """Return the numbers of the lines of a metrics.jsonl, by name."""
    lines = {name: [line for line in metrics if name in line] for line in metrics for name in line if name != "step"}
    return {name: Series([x["step"] for x in found], [x[name] for x in found]) for name, found in lines.items()}


@dataclass(frozen=True)
class RunRecord:
    """A run and the result that `_engine` wrote, or in a sentence why it failed ("" where it was not asked for)."""

    name: str
    seed: int
    result: dict[str, Any] | None = None
    error: str = ""

    def value(self, column: Column) -> float | None:
        """Return the number of a column, None where the run has none."""
        if self.result is None:
            return None
        found = [self._find(value, column.at) for value in column.values]
        numbers = [each for each in found if isinstance(each, int | float) and math.isfinite(each)]
        divisor = 1.0 if column.over is None else self._find(column.over, column.at)
        return column.scale * statistics.fmean(numbers) / divisor if numbers and divisor else None

    def score(self, measure: str, path: str) -> Any:
        """Return the score of a measure under a path with dots, None where there is none."""
        return None if self.result is None else _follow(self.result["measured"].get(measure, {}).get("scores"), path)

    def series(self, pattern: str) -> dict[str, Series]:
        """Return what was logged under names that match ``pattern``, by name."""
        found = {} if self.result is None else self.result["series"]
        return {name: Series(*each.values()) for name, each in found.items() if fnmatch.fnmatchcase(name, pattern)}

    def _find(self, value: str, at: float) -> Any:
        assert self.result is not None
        source, _, name = value.partition(".")
        if source == "log":
            end = math.inf if at == 1 else at * self.result["config"]["steps"]
            logged = self.series(name).get(name, Series([], []))
            return next((x for step, x in reversed(list(zip(*logged, strict=True))) if step <= end), None)
        if source == "outcome":
            return _follow(self.result["outcome"], name)
        headline = self.result["measured"].get(source, {}).get("headline", {})
        return headline[name] if name in headline else self.score(source, name)


@dataclass(frozen=True)
class Row:
    """A case and its runs, in the order of the seeds."""

    case: Case
    runs: tuple[RunRecord, ...]


@dataclass(frozen=True)
class Group:
    """Rows that agree in ``labels``, often a single one; the number of a group is the mean of its rows, seed by seed."""

    labels: dict[str, str]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        return ", ".join(self.labels.values())

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        return tuple(run for row in self.rows for run in row.runs)

    def values(self, column: Column) -> dict[int, float]:
        """Return the numbers by seed, for the seeds for which all rows have one."""
        found = [{run.seed: run.value(column) for run in row.runs} for row in self.rows]
        by_seed = {seed: [each.get(seed) for each in found] for seed in found[0]}
        return {
            seed: statistics.fmean(value for value in values if value is not None)
            for seed, values in by_seed.items()
            if None not in values
        }

    def summary(self, column: Column) -> Summary:
        return summarize(list(self.values(column).values()))

    def published(self, column: Column) -> float | None:
        values = [row.case.published.get(column.title) for row in self.rows]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if len(known) == len(values) else None

    def gain(self, baseline: Group, column: Column) -> Summary:
        """Return the difference to another group, paired by seed."""
        ours, theirs = self.values(column), baseline.values(column)
        return summarize([ours[seed] - theirs[seed] for seed in ours if seed in theirs])

    def published_gain(self, baseline: Group, column: Column) -> float | None:
        """Return the difference that the paper prints, or that of the values that it prints."""
        (row,) = self.rows
        if column.title in row.case.published_gain:
            return row.case.published_gain[column.title]
        ours, theirs = self.published(column), baseline.published(column)
        return None if ours is None or theirs is None else ours - theirs


def grouped(rows: Sequence[Row], labels: Sequence[str] | None = None) -> list[Group]:
    """Group rows by their values of ``labels``, in their order; by default every row is a group."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    names = list(rows[0].case.labels) if labels is None and rows else labels or ()
    for row in rows:
        groups.setdefault(tuple(row.case.labels[name] for name in names), []).append(row)
    return [Group(dict(zip(names, values, strict=True)), tuple(found)) for values, found in groups.items()]


def best_rows(rows: Sequence[Row], label: str, column: Column) -> list[Row]:
    """Return, of the rows that differ in ``label`` alone, the one with the best mean of a column."""
    found = []
    for group in grouped(rows, [name for name in rows[0].case.labels if name != label]):
        measured = [(single.summary(column).mean, single.rows[0]) for single in grouped(group.rows)]
        done = [(mean, row) for mean, row in measured if mean is not None]
        pick = min if column.lower_is_better else max
        found.append(pick(done, key=lambda each: each[0])[1] if done else group.rows[0])
    return found


def baseline_of(group: Group, groups: Iterable[Group], label: str, value: str) -> Group | None:
    """Return the group that differs from ``group`` only in having ``value`` as ``label``; None for that one itself."""
    if group.labels[label] == value:
        return None
    return next((other for other in groups if other.labels == {**group.labels, label: value}), None)


def summarize(values: Sequence[float]) -> Summary:
    return Summary(statistics.fmean(values) if values else None, statistics.stdev(values) if len(values) > 1 else None)


def blocks(study: Study, rows: Sequence[Row], conditions: Sequence[str]) -> list[str | Table]:
    """Return the paragraphs and tables of a report: results, means, best rows, gains, notes, missing runs.

    ``conditions`` say how the runs were measured and how they differ from the declared study, a sentence each.
    """
    found: list[str | Table] = []
    if rows:
        found += [_explanation(study, rows), *conditions, results_table(study, rows)]
    if study.mean_over is not None:
        found += [f"Mean over {study.mean_over}:", results_table(study, rows, study.mean_over)]
    compared = grouped(rows)
    if study.best_over is not None:
        label, title = study.best_over
        best = best_rows(rows, label, study.column(title))
        compared = grouped(best, [name for name in study.headings if name != label])
        found += [f"Best {label} of each by {title}:", results_table(study, best)]
    if study.baseline is not None:
        label, value = study.baseline
        found += [f"Gain over {label} = {value}, seed by seed:", gains_table(study, compared)]
    found += [study.notes] if study.notes else []
    missing = _missing(rows)
    return [*found, "\n".join(missing)] if missing else found


def results_table(study: Study, rows: Sequence[Row], mean_over: str | None = None) -> Table:
    """Return a line for each case (of a transposed study: for each column), with mean ± spread (published).

    Cases that differ in the label ``mean_over`` alone are one line; columns without numbers are left out then.
    """
    headings = [heading for heading in study.headings if heading != mean_over]
    groups = grouped(rows, headings)
    columns = [
        c for c in study.columns if mean_over is None or any(group.summary(c).mean is not None for group in groups)
    ]
    header = [*headings, *(_heading(c, any(group.published(c) is not None for group in groups)) for c in columns)]
    lines = [
        [*_labels(group), *(_cell(group.summary(c), c.digits, group.published(c), _state(group)) for c in columns)]
        for group in groups
    ]
    if study.transposed:
        header, *lines = map(list, zip(header, *lines, strict=True))
        return Table(header, lines)
    return Table(header, lines, labels=len(headings))


def gains_table(study: Study, groups: Sequence[Group]) -> Table:
    """Return a line for each group that has a baseline: the difference in every compared column, ours and published.

    Where the gain is below its spread over the seeds, the cell says "cannot tell".
    """
    assert study.baseline is not None
    columns = [column for column in study.columns if column.compared]
    pairs = [(each, other) for each in groups if (other := baseline_of(each, groups, *study.baseline)) is not None]
    published = [[each.published_gain(other, column) for column in columns] for each, other in pairs]
    shown = [any(line[number] is not None for line in published) for number in range(len(columns))]
    lines = []
    for (each, other), gains in zip(pairs, published, strict=True):
        found = [
            _cell(each.gain(other, column), column.digits, gain, _state(each), signed=True)
            for column, gain in zip(columns, gains, strict=True)
        ]
        lines.append([*_labels(each), *found])
    labels = list(groups[0].labels)
    return Table([*labels, *map(_heading, columns, shown)], lines, labels=len(labels))


def _explanation(study: Study, rows: Sequence[Row]) -> str:
    first, *others = [str(run.seed) for run in rows[0].runs]
    words = f"{study.weights.capitalize()} weights of every run"
    if others:
        words += f"; mean ± sample standard deviation over the seeds {', '.join([first, *others])}"
    else:
        words += f", seed {first}"
    has_published = any(row.case.published or row.case.published_gain for row in rows)
    return words + ("; published values in parentheses." if has_published else ".")


def _labels(found: Group) -> list[str]:
    """Return the labels; the last says so where the numbers are of fewer runs than were asked for."""
    *others, last = found.labels.values()
    done = sum(run.result is not None for run in found.runs)
    return [*others, last if done in (0, len(found.runs)) else f"{last} ({done} of {len(found.runs)} runs)"]


def _state(found: Group) -> str:
    """Return the text of a cell without a number."""
    if any(run.result is not None for run in found.runs):
        return MISSING
    return "failed" if any(run.error for run in found.runs) else "not run"


def _missing(rows: Sequence[Row]) -> list[str]:
    runs = [run for row in rows for run in row.runs if run.result is None]
    failed = [f"* failed: {run.name}: {run.error}" for run in runs if run.error]
    not_run = [run.name for run in runs if not run.error]
    return failed + ([f"* not run: {', '.join(not_run)}"] if not_run else [])


def _heading(column: Column, has_published: bool) -> str:
    return f"{column.title} (published)" if has_published else column.title


def _cell(summary: Summary, digits: int, published: float | None, state: str, signed: bool = False) -> str:
    sign = "+" if signed else ""
    ours = state if summary.mean is None else f"{summary.mean:{sign}.{digits}f}"
    if summary.spread is not None:
        ours += f" ± {summary.spread:.{digits}f}"
        if signed and summary.mean is not None and abs(summary.mean) < summary.spread:
            ours += ", cannot tell"
    return ours if published is None else f"{ours} ({published:{sign}.{digits}f})"


def _follow(scores: Any, path: str) -> Any:
    """Return what lies in nested scores under a path with dots; None where nothing does."""
    for part in path.split("."):
        scores = scores.get(part) if isinstance(scores, dict) else None
    return scores
