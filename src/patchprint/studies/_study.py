"""Declarations of studies: which runs to train, what to measure of each, what to show."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from patchprint.studies._figures import Curves, Figure


@dataclass(frozen=True)
class Case:
    """One row of the table: a recipe with changed settings, trained once with each seed.

    Args:
        labels: name of the row, by column heading: ``{"loss": "triplet", "norms": "SEC"}``.
        recipe: recipe of ``patchprint train``.
        learns: name of the training set in ``Study.data``.
        settings: fields of TrainConfig that differ from the recipe.
        published: values that the paper prints in this row, by column title.
        published_gain: differences to the baseline that the paper prints without printing values.
        selects_on: sets whose mean FPR95 chooses the best weights; the papers used their test sets.
        starts_from: name of an earlier case; each run starts from the weights of that case with the same seed.
    """

    labels: dict[str, str]
    recipe: str
    learns: str
    settings: dict[str, Any] = field(default_factory=dict)
    published: dict[str, float] = field(default_factory=dict)
    published_gain: dict[str, float] = field(default_factory=dict)
    selects_on: tuple[str, ...] = ()
    starts_from: str | None = None

    @property
    def name(self) -> str:
        """The labels as part of a file name: ``cub-triplet-l2-penalty``."""
        return re.sub(r"[^a-z0-9.+]+", "-", "-".join(self.labels.values()).lower()).strip("-")


@dataclass(frozen=True)
class Measure:
    """A benchmark, or a probe of `_measures`, that is run on the weights of every run.

    Args:
        benchmark: name of the benchmark or probe.
        on: set of the study to measure on, left out for runs that learned it; by default the set that was learned.
        settings: settings of the benchmark that differ from its defaults.
        signs: whether to measure the signs of the descriptors, as bits.
    """

    benchmark: str
    on: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    signs: bool = False


@dataclass(frozen=True)
class Column:
    """One number of a run.

    Args:
        title: column heading.
        value: where the number is found; of several, the mean of those that exist. ``MEASURE.NAME`` is a headline number or a
            score by its path (``test.recall.8`` is ``scores["recall"]["8"]``), ``log.NAME`` the last value in metrics.jsonl
            (``log.norm/variance``), ``outcome.NAME`` a result of the training itself (``outcome.measured.fpr95``).
        scale: factor, such as 100 for percent.
        digits: digits after the decimal point.
        compared: whether the table of gains over the baseline shows the column.
        lower_is_better: whether the best row has the lowest mean.
        at: fraction of the run up to which the last logged value is taken.
        over: divisor, written like ``value``.
    """

    title: str
    value: str | tuple[str, ...]
    scale: float = 1.0
    digits: int = 2
    compared: bool = True
    lower_is_better: bool = False
    at: float = 1.0
    over: str | None = None

    @property
    def values(self) -> tuple[str, ...]:
        return (self.value,) if isinstance(self.value, str) else self.value


@dataclass(frozen=True)
class Study:
    """A table or figure of a paper.

    Args:
        summary: one line for lists and headings.
        data: names and descriptions of the sets that it needs.
        cases: rows of the table, all with the same labels; none where the figures need no run.
        measures: measurements by name; columns refer to them.
        columns: numbers that the table shows of each row.
        seeds: seeds that every case is trained with.
        weights: which weights of a run are measured; "best" are chosen on held-out points.
        baseline: a label and its value; a second table shows the gain of the other rows over the row that has this value.
        mean_over: a label; another table shows means over rows that differ in this label alone.
        best_over: a label and a column title; another table shows, of rows that differ in this label alone, the best by the
            column. Gains are then those of the best rows.
        transposed: whether the table has a line for each column, for few rows with many numbers.
        figures: figures from top to bottom.
        notes: what a reader must know to compare our numbers with the published ones.
    """

    summary: str
    data: dict[str, str]
    cases: tuple[Case, ...]
    measures: dict[str, Measure]
    columns: tuple[Column, ...]
    seeds: tuple[int, ...] = (0, 1)
    weights: Literal["best", "last"] = "last"
    baseline: tuple[str, str] | None = None
    mean_over: str | None = None
    best_over: tuple[str, str] | None = None
    transposed: bool = False
    figures: tuple[Figure, ...] = ()
    notes: str = ""

    def __post_init__(self) -> None:
        names, headings = [case.name for case in self.cases], list(self.headings)
        titles = {column.title for column in self.columns}
        for number, case in enumerate(self.cases):
            if list(case.labels) != headings or names.count(case.name) > 1:
                raise ValueError(f"case {case.name!r} needs the labels {headings} and a name of its own")
            published = {*case.published, *case.published_gain}
            if not published <= titles:
                raise ValueError(f"case {case.name!r} has published values for {published - titles}")
            if case.starts_from is not None and case.starts_from not in names[:number]:
                raise ValueError(f"case {case.name!r} starts from {case.starts_from!r}, which is not an earlier case")
        sets = {name for case in self.cases for name in (case.learns, *case.selects_on)}
        sets |= {each.on for each in self.measures.values() if each.on}
        if sets != set(self.data):
            raise ValueError(f"cases and measures name the sets {sorted(sets)}, data {sorted(self.data)}")
        if self.best_over is not None and (self.best_over[0] not in headings or self.best_over[1] not in titles):
            raise ValueError(f"best_over is {self.best_over}, which is not a label and a column of the study")
        sources = {value.partition(".")[0] for column in self.columns for value in column.values}
        unknown = sources - {*self.measures, "log", "outcome"}
        if unknown:
            raise ValueError(f"columns name {sorted(unknown)}, which are not measures")

    @property
    def headings(self) -> tuple[str, ...]:
        return tuple(self.cases[0].labels) if self.cases else ()

    def column(self, title: str) -> Column:
        return next(each for each in self.columns if each.title == title)

    @property
    def series(self) -> tuple[str, ...]:
        """Patterns of the names in metrics.jsonl that figures and columns need."""
        figures = [figure.series for figure in self.figures if isinstance(figure, Curves)]
        values = [value for column in self.columns for value in (*column.values, column.over or "")]
        return tuple(dict.fromkeys([*figures, *(each[4:] for each in values if each.startswith("log."))]))

    def case(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)

    def measures_of(self, case: Case) -> dict[str, Measure]:
        """Return the measurements of the runs of a case; ``on`` its training set only if asked for."""
        return {title: each for title, each in self.measures.items() if each.on != case.learns}

    def sets_of(self, case: Case) -> set[str]:
        """Return the sets that the runs of a case need, and those of the runs that they start from."""
        measured = {each.on or case.learns for each in self.measures_of(case).values()}
        earlier = set() if case.starts_from is None else self.sets_of(self.case(case.starts_from))
        return {case.learns, *case.selects_on} | measured | earlier
