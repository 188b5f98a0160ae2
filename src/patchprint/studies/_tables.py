"""A study as Markdown: our numbers with their spread, the published ones beside them, what was not run."""

from __future__ import annotations

from collections.abc import Sequence

from patchprint.studies._results import Row, Summary, baseline_of, best_rows, grouped, without_label
from patchprint.studies._study import Column, Study

NOTHING = "–"


def document(name: str, study: Study, rows: list[Row], conditions: Sequence[str]) -> str:
    """The whole page: heading, table, gains over the baseline, notes, and the runs that are missing.

    Args:
        conditions: what these runs differ in from the study as it is declared, one phrase each.
    """
    parts = [f"# {name}: {study.summary}"]
    if rows:
        parts += [_explanation(study, rows), *(f"**{words}**" for words in conditions), results_table(study, rows)]
    if study.mean_over is not None:
        parts += [f"Mean over {study.mean_over}:", means_table(study, rows, study.mean_over)]
    compared = rows
    if study.best_over is not None:
        label, title = study.best_over
        best = best_rows(rows, label, next(column for column in study.columns if column.title == title))
        compared = [without_label(row, label) for row in best]
        parts += [f"Best {label} of each by {title}:", results_table(study, best)]
    if study.baseline is not None:
        label, value = study.baseline
        parts += [f"Gain over {label} = {value}, seed by seed:"]
        parts += [gains_table(study, compared)]
    parts += [study.notes] if study.notes else []
    missing = _missing(rows)
    return "\n\n".join([*parts, "\n".join(missing)] if missing else parts) + "\n"


def results_table(study: Study, rows: list[Row]) -> str:
    """A line for each case: labels, then each column as mean ± spread (published); or, transposed, a line for each column."""
    header = [*study.headings, *(_heading(column, _has_published(rows, column)) for column in study.columns)]
    lines = [
        [
            *_labels(row),
            *(_cell(row.summary(c), c.digits, row.case.published.get(c.title), _state(row)) for c in study.columns),
        ]
        for row in rows
    ]
    if study.transposed:
        header, *lines = map(list, zip(header, *lines, strict=True))
        return _markdown(header, lines, 1)
    return _markdown(header, lines, len(study.headings))


def means_table(study: Study, rows: list[Row], label: str) -> str:
    """A line for all cases that differ in ``label`` alone, with the columns that all of them have."""
    headings = [heading for heading in study.headings if heading != label]
    groups = grouped(rows, headings)
    columns = [c for c in study.columns if any(group.summary(c).mean is not None for group in groups)]
    header = [*headings, *(_heading(c, any(group.published(c) is not None for group in groups)) for c in columns)]
    lines = [
        [*group.labels.values(), *(_cell(group.summary(c), c.digits, group.published(c), NOTHING) for c in columns)]
        for group in groups
    ]
    return _markdown(header, lines, len(headings))


def gains_table(study: Study, rows: list[Row]) -> str:
    """A line for each case that has a baseline: by how much every compared column differs, ours and published.

    Where the gain is below its spread over the seeds, the cell says that these runs cannot tell.
    """
    assert study.baseline is not None
    columns = [column for column in study.columns if column.compared]
    header = [*rows[0].case.labels, *(_heading(column, _has_published_gain(study, rows, column)) for column in columns)]
    lines = []
    for row in rows:
        other = baseline_of(row, rows, *study.baseline)
        if other is not None:
            cells = [
                _cell(row.gain(other, c), c.digits, published_gain(row, other, c), _state(row), signed=True)
                for c in columns
            ]
            lines.append([*_labels(row), *cells])
    return _markdown(header, lines, len(rows[0].case.labels))


def published_gain(row: Row, baseline: Row, column: Column) -> float | None:
    """What the paper prints of the difference, or the difference of what it prints."""
    if column.title in row.case.published_gain:
        return row.case.published_gain[column.title]
    ours, theirs = row.case.published.get(column.title), baseline.case.published.get(column.title)
    return None if ours is None or theirs is None else ours - theirs


def _has_published_gain(study: Study, rows: list[Row], column: Column) -> bool:
    assert study.baseline is not None
    pairs = [(row, baseline_of(row, rows, *study.baseline)) for row in rows]
    return any(other is not None and published_gain(row, other, column) is not None for row, other in pairs)


def _explanation(study: Study, rows: list[Row]) -> str:
    seeds = [str(run.seed) for run in rows[0].runs] if rows else []
    words = f"{study.weights.capitalize()} weights of every run, seed {seeds[0] if seeds else NOTHING}"
    if len(seeds) > 1:
        words = (
            f"{study.weights.capitalize()} weights of every run; mean ± sample standard deviation over the seeds "
            f"{', '.join(seeds)}"
        )
    has_published = any(row.case.published or row.case.published_gain for row in rows)
    return words + ("; published values in parentheses." if has_published else ".")


def _has_published(rows: list[Row], column: Column) -> bool:
    return any(column.title in row.case.published for row in rows)


def _labels(row: Row) -> list[str]:
    """The labels of a row; the last says so where the numbers are of fewer runs than were asked for."""
    *others, last = row.case.labels.values()
    done = sum(run.result is not None for run in row.runs)
    return [*others, last if done in (0, len(row.runs)) else f"{last} ({done} of {len(row.runs)} runs)"]


def _state(row: Row) -> str:
    """What stands where there is no number."""
    if any(run.result is not None for run in row.runs):
        return NOTHING
    return "failed" if any(run.error for run in row.runs) else "not run"


def _missing(rows: list[Row]) -> list[str]:
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


def _markdown(header: list[str], lines: list[list[str]], labels: int) -> str:
    rule = ["---"] * labels + ["---:"] * (len(header) - labels)
    escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in (header, rule, *lines))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in escaped)
