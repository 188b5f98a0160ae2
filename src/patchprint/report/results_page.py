"""Result files as one page: a table for each benchmark, curves where there are some, and the commands behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchprint.report.comparison import Comparison, cell, compare, data_name
from patchprint.report.curves import curve_sections
from patchprint.report.page import Page, Section, Table, best_of


def results_page(
    results: Sequence[dict[str, Any]], more: Sequence[Section] = (), title: str = "Benchmark results"
) -> Page:
    """The page of results that ``patchprint eval`` wrote, with further sections after the tables."""
    sections = [Section(c.title, tables=[_table(c)]) for c in compare(results)]
    sections += curve_sections(results)
    sections += more
    if not results:
        return Page(title, sections=sections)
    origin = [
        [r["benchmark"], data_name(r), r["model"]["name"], r["model"]["sha256"][:12] or "-", *map(str, _effort(r))]
        for r in results
    ]
    header = ["benchmark", "data", "model", "weights", "date", "seconds", "peak MiB"]
    commands = "\n".join(dict.fromkeys(r["run"]["command"] for r in results if "run" in r))
    sections.append(Section("Where the numbers come from", tables=[Table(header, origin)], code=commands))
    return Page(title, f"{len(results)} results", sections)


def _table(comparison: Comparison) -> Table:
    rows = [[label, *map(cell, values)] for label, values in comparison.rows]
    best = set()
    for column, name in enumerate(comparison.columns):
        ours = [
            (row[column + 1], values[column])
            for row, (label, values) in zip(rows, comparison.rows, strict=True)
            if values[column] is not None and not label.startswith("published")
        ]
        if len(ours) > 1:
            cells, numbers = zip(*ours, strict=True)
            best.add(best_of(column + 1, list(cells), list(numbers), name in comparison.lower_is_better))
    return Table(["", *comparison.columns], rows, best=frozenset(best))


def _effort(result: dict[str, Any]) -> tuple[object, ...]:
    run = result.get("run", {})
    return run.get("date", "-"), run.get("seconds", "-"), run.get("peak_mib", "-")
