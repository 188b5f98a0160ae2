"""What a study is: runs, what is measured after each of them, and how it is shown. All of it is data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from patchprint.studies._figures import Figure


@dataclass(frozen=True)
class Case:
    """One row of the table: a recipe with its settings, learned once with each seed.

    Args:
        labels: what names the row, by the heading of each of its first columns: ``{"loss": "triplet", "norms": "SEC"}``.
        recipe: of ``patchprint train``.
        learns: the set that is learned from, by its name in the study.
        settings: fields of TrainConfig that differ from the recipe.
        published: what the paper prints in this row, by the title of the column.
        published_gain: what it prints of the difference to the baseline, where it prints no numbers to subtract.
        selects_on: sets whose mean FPR95 chooses the best weights, as the papers did with their test sets.
        starts_from: name of an earlier case; each run starts from the weights of the run of that case with its seed.
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
    """What every run goes through: a benchmark or a probe of `_probes`, with its settings.

    It is taken ``on`` a set of the study, by all runs that did not learn that set; without it, on the set that was learned.
    ``signs``: of the signs of the descriptors, as bits.
    """

    benchmark: str
    on: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    signs: bool = False


@dataclass(frozen=True)
class Column:
    """One number of a run.

    Args:
        title: heading of the column.
        value: MEASURE.NAME, where NAME is one of the headline of the benchmark or leads to a score (``test.recall.8``
            is ``scores["recall"]["8"]``); ``log.NAME`` is the last value in metrics.jsonl, such as ``log.norm/variance``;
            ``outcome.NAME`` is what training itself found, such as ``outcome.measured.fpr95``. Of several, the mean of those
            that a run has.
        scale: factor, such as 100 for a share in percent.
        digits: places behind the point.
        compared: whether the difference to the baseline of the study says something.
        lower_is_better: whether the best row is the one with the lowest mean.
        at: part of the run; of what was logged, the last value up to there.
        over: what it is divided by, written like ``value``.
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
    """A table or a figure of a paper.

    Args:
        summary: one line for lists and for the heading of the table.
        data: the sets it needs, by name, each with what it is.
        cases: the rows, all with the same headings; none where a figure needs no run.
        measures: by name; columns speak of them.
        columns: what the table shows of each row.
        seeds: every case is learned with each of them.
        weights: which weights of a run are measured; "best" are those that held-out points chose.
        baseline: a label and its value; a second table shows what the other rows gain over the row that differs in it alone.
        mean_over: a label; another table shows the mean of the rows that differ in it alone.
        best_over: a label and a column; of the rows that differ in the label alone, another table shows the one that is best
            in the column. Gains are then those of the best rows.
        transposed: whether the table has a line for each column, for few rows with many numbers.
        figures: one above the other in the drawing.
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
                raise ValueError(f"case {case.name!r} starts from {case.starts_from!r}, which does not stand before it")
        sets = {name for case in self.cases for name in (case.learns, *case.selects_on)}
        sets |= {each.on for each in self.measures.values() if each.on}
        if sets != set(self.data):
            raise ValueError(f"cases and measures speak of the sets {sorted(sets)}, data of {sorted(self.data)}")
        if self.best_over is not None and (self.best_over[0] not in headings or self.best_over[1] not in titles):
            raise ValueError(f"best_over is {self.best_over}, which is not a label and a column of the study")
        sources = {value.partition(".")[0] for column in self.columns for value in column.values}
        unknown = sources - {*self.measures, "log", "outcome"}
        if unknown:
            raise ValueError(f"columns speak of {sorted(unknown)}, which are no measures")

    @property
    def headings(self) -> tuple[str, ...]:
        return tuple(self.cases[0].labels) if self.cases else ()

    @property
    def series(self) -> tuple[str, ...]:
        """What the figures show over training: patterns of names in metrics.jsonl."""
        return tuple(pattern for figure in self.figures for pattern in figure.series_names)

    def case(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)

    def measures_of(self, case: Case) -> dict[str, Measure]:
        """What is measured of the runs of a case: not on what they learned, unless that is asked for."""
        return {title: each for title, each in self.measures.items() if each.on != case.learns}

    def sets_of(self, case: Case) -> set[str]:
        """The sets that its runs need, and those of the runs that they start from."""
        measured = {each.on or case.learns for each in self.measures_of(case).values()}
        earlier = set() if case.starts_from is None else self.sets_of(self.case(case.starts_from))
        return {case.learns, *case.selects_on} | measured | earlier
