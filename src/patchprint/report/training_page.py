"""The page of ``patchprint train``: results and curves of training runs, angles, example patches, cost and settings."""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from patchprint.common.provenance import machine_name, origin
from patchprint.common.table import Table, best_cells, format_number
from patchprint.report.angles import angle_sections
from patchprint.report.charts import LONG, Chart, Line
from patchprint.report.page import Code, Page, Part, Section, Text
from patchprint.report.runs import Run
from patchprint.training.held_out import measure_title

# What is drawn, by the first part of its name, in this order.
_SHOWN = {
    "validation": "held-out points",
    "test": "test sets",
    "loss": "loss",
    "distance": "distance in the batch",
    "norm": "norm before normalization",
}
_MEASURED = ("validation", "test")


def training_page(runs: Sequence[Run]) -> Page:
    """Return the page of training runs."""
    sections = [*run_sections(runs), *angle_sections(runs), *cost_sections(runs)]
    calls = [call for run in runs for call in run.calls]
    return Page(title(runs), verdict(runs), f"{'; '.join(leads(runs))}.", sections, origin(calls))


def title(runs: Sequence[Run]) -> str:
    return f"Training of {', '.join(run.label for run in runs)}" if len(runs) < 4 else f"{len(runs)} trainings"


def leads(runs: Sequence[Run]) -> list[str]:
    """Return what the first runs are: their recipe, data and steps."""
    found = []
    for run in runs[:3]:
        data = run.config.get("data")
        names = [Path(str(name)).name for name in data] if isinstance(data, list) else []
        learned = f" on {', '.join(names)}" if names else ""
        found.append(f"{run.label}: recipe {run.config.get('recipe', '–')}{learned}, {run.steps:,} steps")
    return found


def verdict(runs: Sequence[Run]) -> str:
    """Return a sentence with the best validation result."""
    names = [name for name in _names(runs) if _is_measured(name)]
    if not names:
        steps = ", ".join(f"{run.label}: {run.steps:,} steps" for run in runs)
        return f"Nothing was measured on held-out data. {steps}."
    name = next((each for each in names if each.endswith("/fpr95")), names[0])
    found = [(value, step, run) for run in runs for step, value in zip(*run.curve(name), strict=True)]
    value, step, best = min(found, key=lambda each: each[0])
    measured = f"{title_of(name).replace(', ', ' on ', 1)} falls to {100 * value:.2f}\u00a0%"
    when = f"at step {step:,} of {best.steps:,}"
    return f"{measured} {when}." if len(runs) == 1 else f"Of {len(runs)} runs {best.label} is best: {measured} {when}."


def run_sections(runs: Sequence[Run]) -> list[Section]:
    """Return the validation results of all runs, and their curves."""
    if not runs:
        return []
    names = _names(runs)
    charts: list[Part] = [_chart(runs, list(group)) for _, group in groupby(names, _name_of_chart)]
    if any(len(line.x) > LONG for chart in charts if isinstance(chart, Chart) for line in chart.lines):
        charts.append(
            Text(f"Curves of more than {LONG} points are drawn as the mean of {LONG} stretches, all points behind it.")
        )
    sections = [
        Section("Training", [_table(runs, [name for name in names if _is_measured(name)])]),
        Section("Curves of training", charts),
    ]
    return sections if charts else sections[:1]


def cost_sections(
    runs: Sequence[Run], calls: Sequence[dict[str, Any]] = (), tables: Sequence[Part] = ()
) -> list[Section]:
    """Return a section with time, memory, commands and settings of runs; ``calls`` and ``tables`` are the cost of others."""
    parts: list[Part] = []
    spent = [(run, call) for run in runs for call in run.calls]
    if spent:
        header = ["training", "steps", "seconds", "peak MiB", "GPU MiB", "machine", "date"]
        parts.append(Table(header, [_call(run, call) for run, call in spent], "A line for each call of training."))
    for name, words in (("patches_per_second", "patches a second"), ("lr", "learning rate")):
        lines = [Line(run.label, *run.curve(name), number) for number, run in enumerate(runs)]
        lines = [line for line in lines if len(line.x) > 1]
        if lines:
            parts.append(Chart(words.capitalize(), "step", words, lines))
    commands = [str(call["command"]) for call in [call for _, call in spent] + [*calls] if call.get("command")]
    parts += [*tables, *([Code("\n".join(dict.fromkeys(commands)))] if commands else [])]
    for run in runs:
        if run.config:
            parts.append(Code(json.dumps(run.config, indent=2, ensure_ascii=False), f"Settings of {run.label}"))
    return [Section("Cost and commands", parts)] if parts else []


def cost_cells(call: dict[str, Any], *names: str) -> list[str]:
    """Return numbers of a call as cells of a table, and its date."""
    found = [call.get(name) for name in names]
    numbers = [format_number(x, ",.1f" if isinstance(x, float) and abs(x) < 1000 else ",.0f") for x in found]
    return [*numbers, str(call.get("date", "–")).partition("T")[0]]


def _call(run: Run, call: dict[str, Any]) -> list[str]:
    machine = call.get("machine")
    first, last, *numbers, date = cost_cells(call, "first_step", "last_step", "seconds", "peak_mib", "gpu_peak_mib")
    return [run.label, f"{first} to {last}", *numbers, machine_name(machine if isinstance(machine, dict) else {}), date]


def title_of(name: str) -> str:
    """Return the title of a metric: "FPR95, held-out points", "loss", "loss: positive"."""
    group, _, what = name.partition("/")
    if _is_measured(name):
        return f"{measure_title(what)}, {_SHOWN[group]}"
    return _SHOWN[group] if what == "total" else f"{_SHOWN[group]}: {what.replace('_', ' ')}"


def _names(runs: Sequence[Run]) -> list[str]:
    """Return the metrics that are shown, in their order."""
    names = {name for run in runs for line in run.metrics for name in line}
    return sorted((name for name in names if "/" in name and name.partition("/")[0] in _SHOWN), key=_order)


def _order(name: str) -> tuple[int, bool, str, bool]:
    group, _, what = name.partition("/")
    return list(_SHOWN).index(group), what not in ("total", "fpr95"), _without_sign(what), "negative" in what


def _name_of_chart(name: str) -> str:
    """Return what the metrics of one chart share: positives with negatives, and the norms of all samples."""
    return "norm/samples" if name.startswith("norm/sample-") else _without_sign(name)


def _without_sign(name: str) -> str:
    return name.replace("positive", "±").replace("negative", "±")


def _is_measured(name: str) -> bool:
    return name.partition("/")[0] in _MEASURED


def _table(runs: Sequence[Run], measured: Sequence[str]) -> Table:
    """Return a row for each run: recipe, steps, and the minimum of each validation metric."""
    least = [[min(run.curve(name)[1], default=None) for name in measured] for run in runs]
    rows = [
        [run.label, str(run.config.get("recipe", "–")), f"{run.steps:,}"]
        + ["–" if value is None else f"{100 * value:.2f} %" for value in values]
        for run, values in zip(runs, least, strict=True)
    ]
    best = frozenset[tuple[int, str]]().union(
        *(best_cells(column, rows, values, True) for column, values in enumerate(zip(*least, strict=True), start=3))
    )
    header = ["run", "recipe", "steps", *map(title_of, measured)]
    return Table(header, rows, "Of what was measured, the least over the run; lower is better.", best)


def _chart(runs: Sequence[Run], names: Sequence[str]) -> Chart:
    """Return a chart with a line for each run and metric; with several runs, negatives are dashed."""
    factor, unit = (100, " (%)") if _is_measured(names[0]) else (1, "")
    several, lines = len(runs) > 1, []
    for number, run in enumerate(runs):
        for place, name in enumerate(names):
            steps, values = run.curve(name)
            words = [run.label] if several else []
            words += [_words(name)] if len(names) > 1 or not several else []
            scaled = [factor * value for value in values]
            color = number if several else place
            if steps:
                lines.append(Line(", ".join(words), steps, scaled, color, dashed=several and place > 0))
    if len(names) == 1:
        return Chart(title_of(names[0]), "step", _words(names[0]) + unit, lines)
    together = title_of(names[0]).replace("positive", "positive and negative")
    if names[0].startswith("norm/sample-"):
        together = f"{_SHOWN['norm']}: {len(names)} samples"
    return Chart(together, "step", names[0].partition("/")[0] + unit, lines)


def _words(name: str) -> str:
    """Return the last part of the name of a metric: "FPR95", "loss", "positive std"."""
    group, _, what = name.partition("/")
    return measure_title(what) if _is_measured(name) else group if what == "total" else what.replace("_", " ")
