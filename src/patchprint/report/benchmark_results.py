"""Benchmark results on a page: a table and bars for each group of comparable results, with published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchprint.common.table import Table, best_of, format_number
from patchprint.report.charts import Bars
from patchprint.report.page import Part, Section
from patchprint.report.result_comparison import PUBLISHED, Comparison, comparable, compare, label_of

_BASELINE = "sift"  # what everybody knows
_MOST_BARS = 8  # models side by side


def result_sections(results: Sequence[dict[str, Any]]) -> list[Section]:
    """Return a section for each group of comparable results."""
    sections, comparisons = [], _largest_first(results)
    titles = [comparison.title for comparison, _ in comparisons]
    for comparison, group in comparisons:
        parts: list[Part] = [_table(comparison)]
        bars = _bars(group)
        if bars is not None:
            parts.append(bars)
        alike = titles.count(comparison.title) > 1
        sections.append(
            Section(f"{comparison.title} ({_own(comparison, comparisons)})" if alike else comparison.title, parts)
        )
    return sections


def verdict(results: Sequence[dict[str, Any]]) -> str:
    """Return a sentence that names the best model of each of the first tables, and a baseline."""
    return " ".join(filter(None, (_sentence(comparison) for comparison, _ in _largest_first(results)[:2])))


def _largest_first(results: Sequence[dict[str, Any]]) -> list[tuple[Comparison, list[dict[str, Any]]]]:
    """Return tables with their results, the largest group first."""
    return sorted(zip(compare(results), comparable(results), strict=True), key=lambda each: -len(each[1]))


def _own(comparison: Comparison, others: Sequence[tuple[Comparison, list[dict[str, Any]]]]) -> str:
    """Return the settings that tell a table from others of the same benchmark and data."""
    alike = [other.settings.split(", ") for other, _ in others if other.title == comparison.title]
    everywhere = set.intersection(*map(set, alike))
    return ", ".join(word for word in comparison.settings.split(", ") if word not in everywhere) or "other data or seed"


def _sentence(comparison: Comparison) -> str:
    column = comparison.columns[0] if comparison.columns else ""
    found = {label: values[0] for label, values in comparison.rows if values and values[0] is not None}
    ours = {label: value for label, value in found.items() if not label.startswith(PUBLISHED)}
    if not ours:
        return ""
    choose = min if column in comparison.lower_is_better else max
    best = choose(ours, key=lambda label: ours[label])
    others = [label for label in ours if label != best]
    second = _BASELINE if _BASELINE in others else choose(others, key=lambda label: ours[label]) if others else None
    name, unit = (column.removesuffix(" %"), "\u00a0%") if column.endswith(" %") else (column, "")
    text = f"{comparison.title}: {best} comes to {name} {format_number(ours[best])}{unit}"
    return text + (f", {second} to {format_number(ours[second])}{unit}." if second is not None else ".")


def _table(comparison: Comparison) -> Table:
    rows = [[label, *map(format_number, values)] for label, values in comparison.rows]
    best = set()
    for column, name in enumerate(comparison.columns):
        ours = [
            (row[column + 1], values[column])
            for row, (label, values) in zip(rows, comparison.rows, strict=True)
            if values[column] is not None and not label.startswith(PUBLISHED)
        ]
        if len(ours) > 1:
            cells, numbers = zip(*ours, strict=True)
            best.add(best_of(column + 1, list(cells), list(numbers), name in comparison.lower_is_better))
    lower = [name for name in comparison.columns if name in comparison.lower_is_better]
    words = [f"Settings: {comparison.settings}." if comparison.settings else ""]
    words += [f"Lower is better: {', '.join(lower)}." if lower else ""]
    published = frozenset(label for label, _ in comparison.rows if label.startswith(PUBLISHED))
    return Table(["model", *comparison.columns], rows, " ".join(filter(None, words)), frozenset(best), published)


def _bars(group: Sequence[dict[str, Any]]) -> Bars | None:
    """Return the scores by sequence, if the benchmark has any."""
    names = list(dict.fromkeys(name for result in group for name in _by_sequence(result)))
    if not names:
        return None
    shown = group[:_MOST_BARS]
    values = {label_of(result): [_by_sequence(result).get(name) for name in names] for result in shown}
    note = f"The first {_MOST_BARS} of {len(group)} models." if len(group) > len(shown) else ""
    return Bars("Sequence by sequence", "mean average precision", names, values, note, x_label="sequence")


def _by_sequence(result: dict[str, Any]) -> dict[str, float]:
    found = result["scores"].get("sequences")
    entries = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in entries if isinstance(value, int | float)}
