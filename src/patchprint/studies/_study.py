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
    """

    labels: dict[str, str]
    recipe: str
    learns: str
    settings: dict[str, Any] = field(default_factory=dict)
    published: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The labels as part of a file name: ``cub-triplet-l2-penalty``."""
        return re.sub(r"[^a-z0-9.+]+", "-", "-".join(self.labels.values()).lower()).strip("-")


@dataclass(frozen=True)
class Measure:
    """A benchmark that every run goes through, with its settings, on a set of the study or on the one that was learned."""

    benchmark: str
    on: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """One number of a run.

    Args:
        title: heading of the column.
        value: MEASURE.NAME, where NAME is one of the headline of the benchmark or leads to a score (``test.recall.8``
            is ``scores["recall"]["8"]``); ``end.NAME`` is the last value in metrics.jsonl, such as ``end.norm/variance``.
        scale: factor, such as 100 for a share in percent.
        digits: places behind the point.
        compared: whether the difference to the baseline of the study says something.
    """

    title: str
    value: str
    scale: float = 1.0
    digits: int = 2
    compared: bool = True


@dataclass(frozen=True)
class Study:
    """A table or a figure of a paper.

    Args:
        summary: one line for lists and for the heading of the table.
        data: the sets it needs, by name, each with what it is.
        cases: the rows, all with the same headings.
        measures: by name; columns speak of them.
        columns: what the table shows of each row.
        seeds: every case is learned with each of them.
        weights: which weights of a run are measured; "best" are those that held-out points chose.
        baseline: a label and its value; a second table shows what the other rows gain over the row that differs in it alone.
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
    figures: tuple[Figure, ...] = ()
    notes: str = ""

    def __post_init__(self) -> None:
        names, headings = [case.name for case in self.cases], list(self.headings)
        titles = {column.title for column in self.columns}
        for case in self.cases:
            if list(case.labels) != headings or names.count(case.name) > 1:
                raise ValueError(f"case {case.name!r} needs the labels {headings} and a name of its own")
            if not set(case.published) <= titles:
                raise ValueError(f"case {case.name!r} has published values for {set(case.published) - titles}")
        sets = {case.learns for case in self.cases} | {each.on for each in self.measures.values() if each.on}
        if sets != set(self.data):
            raise ValueError(f"cases and measures speak of the sets {sorted(sets)}, data of {sorted(self.data)}")
        unknown = {column.value.partition(".")[0] for column in self.columns} - {*self.measures, "end"}
        if unknown:
            raise ValueError(f"columns speak of {sorted(unknown)}, which are no measures")

    @property
    def headings(self) -> tuple[str, ...]:
        return tuple(self.cases[0].labels)

    @property
    def series(self) -> tuple[str, ...]:
        """What the figures show over training: patterns of names in metrics.jsonl."""
        return tuple(pattern for figure in self.figures for pattern in figure.series_names)
