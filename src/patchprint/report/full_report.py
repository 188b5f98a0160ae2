"""The page of ``patchprint report``: results first, then training, images and cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchprint.benchmarks.ubc import hardest_from_json
from patchprint.common.provenance import origin
from patchprint.common.table import Table, best_cells, format_number
from patchprint.report import training_page
from patchprint.report.angles import angle_sections
from patchprint.report.charts import Chart, Line
from patchprint.report.embedded_images import EmbeddedImage
from patchprint.report.example_images import KINDS, pair_gallery
from patchprint.report.page import Page, Part, Section
from patchprint.report.result_comparison import PUBLISHED, Comparison, comparable, compare, data_name, label_of, where
from patchprint.report.runs import Run

_BASELINE = "sift"  # what everybody knows
_MOST_WITH_PAIRS = 6  # results whose hardest pairs are shown
_RECALL_OF_FPR95 = 0.95


def whole_page(
    results: Sequence[dict[str, Any]] = (),
    runs: Sequence[Run] = (),
    images: Sequence[Path] = (),
    title: str = "",
) -> Page:
    """Return the page of evaluation results, training runs and image files."""
    shown: list[Part] = [EmbeddedImage.from_file(path, path.name) for path in images]
    comparisons = sorted(compare(results), key=lambda each: -len(each.results))  # the largest first
    wrong = _hardest_pairs(results)
    costs = [result.get("run", {}) for result in results]
    sections = [
        *result_sections(comparisons),
        *curve_sections(results),
        *training_page.run_sections(runs),
        *angle_sections(runs),
        *([Section("Images", shown)] if shown else []),
        *([Section("Where it goes wrong", wrong)] if wrong else []),
        *training_page.cost_sections(runs, costs, [_cost_table(results)] if results else []),
    ]
    verdicts = [*map(verdict, comparisons[:2]), training_page.verdict(runs) if runs else ""]
    leads = [f"{len(results)} results of {len({r['model']['name'] for r in results})} models"] if results else []
    leads += training_page.leads(runs)
    return Page(
        title or _title(results, runs, images),
        " ".join(filter(None, verdicts)),
        "; ".join(leads) + "." if leads else "",
        sections,
        origin([call for run in runs for call in run.calls] + [each["run"] for each in results if "run" in each]),
    )


def _title(results: Sequence[dict[str, Any]], runs: Sequence[Run], images: Sequence[Path]) -> str:
    if runs:
        return training_page.title(runs)
    names = ", ".join(dict.fromkeys(result["benchmark"] for result in results))
    return f"Results of {names}" if names else ", ".join(path.name for path in images) or "Report"


def result_sections(comparisons: Sequence[Comparison]) -> list[Section]:
    """Return a section for each group of comparable results: a table with published numbers."""
    sections = []
    for comparison in comparisons:
        alike = [set(other.settings.split(", ")) for other in comparisons if other.title == comparison.title]
        heading = comparison.title
        if len(alike) > 1:
            own = [word for word in comparison.settings.split(", ") if word not in set.intersection(*alike)]
            heading += f" ({', '.join(own) or 'other data or seed'})"
        sections.append(Section(heading, [_table(comparison)]))
    return sections


def verdict(comparison: Comparison) -> str:
    """Return a sentence that names the best model of a table, and a baseline."""
    column = comparison.columns[0] if comparison.columns else ""
    found = {label: values[0] for label, values in comparison.rows if values and values[0] is not None}
    ours = {label: value for label, value in found.items() if not label.startswith(PUBLISHED)}
    if not ours:
        return ""
    ranked = sorted(ours, key=lambda label: ours[label], reverse=column not in comparison.lower_is_better)
    others = [_BASELINE] if _BASELINE in ranked[1:] else ranked[1:2]
    name, unit = (column.removesuffix(" %"), "\u00a0%") if column.endswith(" %") else (column, "")
    text = f"{comparison.title}: {ranked[0]} comes to {name} {format_number(ours[ranked[0]])}{unit}"
    return text + "".join(f", {label} to {format_number(ours[label])}{unit}" for label in others) + "."


def _table(comparison: Comparison) -> Table:
    rows = [[label, *map(format_number, values)] for label, values in comparison.rows]
    lower = [name for name in comparison.columns if name in comparison.lower_is_better]
    best = frozenset[tuple[int, str]]()
    for column, name in enumerate(comparison.columns):
        ours = [None if label.startswith(PUBLISHED) else values[column] for label, values in comparison.rows]
        best |= best_cells(column + 1, rows, ours, name in lower)
    words = [f"Settings: {comparison.settings}." if comparison.settings else ""]
    words += [f"Lower is better: {', '.join(lower)}." if lower else ""]
    published = frozenset(label for label, _ in comparison.rows if label.startswith(PUBLISHED))
    return Table(["model", *comparison.columns], rows, " ".join(filter(None, words)), best, published)


def _hardest_pairs(results: Sequence[dict[str, Any]]) -> list[Part]:
    """Return the hardest pairs of the first few results that have them."""
    return [
        pair_gallery(
            *hardest_from_json(entry, f"the result of {label_of(result)}"),
            kind,
            f" ({label_of(result)}, {where(result)})",
        )
        for result in [each for each in results if isinstance(each["scores"].get("hardest"), dict)][:_MOST_WITH_PAIRS]
        for kind, entry in result["scores"]["hardest"].items()
        if kind in KINDS
    ]


def _cost_table(results: Sequence[dict[str, Any]]) -> Table:
    rows = []
    for result in results:
        what = [result["benchmark"], data_name(result), result["model"]["name"], result["model"]["sha256"][:12] or "–"]
        rows.append([*what, *training_page.cost_cells(result.get("run", {}), "seconds", "peak_mib")])
    return Table(["benchmark", "data", "model", "weights", "seconds", "peak MiB", "date"], rows)


def curve_sections(results: Sequence[dict[str, Any]]) -> list[Section]:
    """Return a section for each kind of curve in the results: ROC, precision over recall, precision over angle."""
    groups = comparable([result for result in results if _has_curves(result)])
    sections = [Section("Telling pairs apart", [chart for group in groups for chart in _verification(group)])]
    turned = [result for result in results if result["benchmark"] == "rotation"]
    sections.append(Section("Robustness to rotation", [_robustness(turned)] if turned else []))
    with_curves = [r for r in results if r["benchmark"] == "oxford" and r["settings"].get("curves")]
    sections.append(Section("Precision and recall along sequences", _precision_recall(with_curves)))
    return [section for section in sections if section.parts]


def _has_curves(result: dict[str, Any]) -> bool:
    """Return whether a result holds complete curves of `metrics.verification.curves`."""
    curves = result["scores"].get("curves")
    wanted = {"roc": ("fpr", "recall"), "precision_recall": ("recall", "precision")}
    return isinstance(curves, dict) and all(
        isinstance(curve := curves.get(name), dict) and _are_numbers(*(curve.get(axis) for axis in axes))
        for name, axes in wanted.items()
    )


def _are_numbers(*lists: Any) -> bool:
    """Return whether all are lists of numbers of the same length."""
    right = all(isinstance(each, list) and all(isinstance(value, int | float) for value in each) for each in lists)
    return right and len({len(each) for each in lists}) == 1


def _verification(group: Sequence[dict[str, Any]]) -> list[Chart]:
    place = where(group[0])
    roc, precision = [], []
    for number, result in enumerate(group):
        curves, label = result["scores"]["curves"], label_of(result)
        roc.append(Line(label, curves["roc"]["fpr"], curves["roc"]["recall"], color=number))
        along = curves["precision_recall"]
        precision.append(Line(label, along["recall"], along["precision"], color=number))
    rates = [x for line in roc for x in line.x if x > 0]
    roc.append(Line("recall 95 %", [min(rates), 1.0], [_RECALL_OF_FPR95] * 2, color=7, dashed=True))
    note = "FPR95 is read off where a curve crosses the dashed line. Equal distances count against a descriptor."
    return [
        Chart(f"ROC, {place}", "false positive rate", "recall", roc, note, logarithmic=True),
        Chart(f"Precision and recall, {place}", "recall", "precision", precision),
    ]


def _robustness(results: Sequence[dict[str, Any]]) -> Chart:
    lines = []
    for number, result in enumerate(results):
        label, found = f"{label_of(result)} on {data_name(result)}", result["scores"]
        lines.append(Line(label, found["degrees"], found["oriented"], color=number))
        lines.append(Line(f"{label}, upright", found["degrees"], found["upright"], color=number, dashed=True))
    note = "Solid: with the keypoints' angles. Dashed: upright."
    return Chart("Average precision", "degrees", "average precision", lines, note, y_range=(0.0, 1.02), wide=True)


def _precision_recall(results: Sequence[dict[str, Any]]) -> list[Chart]:
    """Return a chart of the middle pair of each sequence, with a line for each result."""
    charts = []
    for sequence in results[0]["scores"]["sequences"] if results else ():
        names = sorted(name for name in results[0]["scores"]["pairs"] if name.startswith(f"{sequence}/"))
        middle = names[len(names) // 2]
        lines = []
        for number, result in enumerate(results):
            curve = result["scores"]["pairs"].get(middle, {}).get("curve", {"recall": [], "precision": []})
            lines.append(Line(label_of(result), curve["recall"], curve["precision"], color=number))
        charts.append(Chart(f"{middle}, the middle pair", "recall", "precision", lines, y_range=(0.0, 1.02)))
    return charts
