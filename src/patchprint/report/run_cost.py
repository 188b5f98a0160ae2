"""Time, memory, machine and commands of the results and runs of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from patchprint.common.provenance import machine_name, origin
from patchprint.common.table import Table, format_number
from patchprint.report.charts import Chart, Line
from patchprint.report.page import Code, Part, Section
from patchprint.report.result_comparison import data_name

if TYPE_CHECKING:
    from patchprint.report.runs import Run

__all__ = ["cost_sections", "origin"]

_SPEED, _RATE = "patches_per_second", "lr"


def cost_sections(results: Sequence[dict[str, Any]], runs: Sequence[Run], more: Sequence[Part] = ()) -> list[Section]:
    """Return a section with time, memory and commands, followed by ``more``."""
    parts: list[Part] = []
    calls = [(run, call) for run in runs for call in run.calls]
    if calls:
        header = ["training", "steps", "seconds", "peak MiB", "GPU MiB", "machine", "date"]
        parts.append(Table(header, [_call(run, call) for run, call in calls], "A line for each call of training."))
    if runs:
        parts += [
            chart for chart in (_chart(runs, _SPEED, "patches a second"), _chart(runs, _RATE, "learning rate")) if chart
        ]
    if results:
        header = ["benchmark", "data", "model", "weights", "seconds", "peak MiB", "date"]
        parts.append(Table(header, [_result(result) for result in results]))
    spent = [call for _, call in calls] + [result.get("run", {}) for result in results]
    commands = "\n".join(dict.fromkeys(str(each["command"]) for each in spent if each.get("command")))
    if commands:
        parts.append(Code(commands))
    return [Section("Cost and commands", [*parts, *more])] if parts or more else []


def _call(run: Run, call: dict[str, Any]) -> list[str]:
    machine = call.get("machine")
    return [
        run.label,
        f"{_number(call.get('first_step'))} to {_number(call.get('last_step'))}",
        *(_number(call.get(name)) for name in ("seconds", "peak_mib", "gpu_peak_mib")),
        machine_name(machine if isinstance(machine, dict) else {}),
        _date(call),
    ]


def _result(result: dict[str, Any]) -> list[str]:

    run = result.get("run", {})
    return [
        result["benchmark"],
        data_name(result),
        result["model"]["name"],
        result["model"]["sha256"][:12] or "–",
        *(_number(run.get(name)) for name in ("seconds", "peak_mib")),
        _date(run),
    ]


def _number(value: Any) -> str:
    return format_number(value, ",.1f" if isinstance(value, float) and abs(value) < 1000 else ",.0f")


def _date(run: dict[str, Any]) -> str:
    return str(run.get("date", "–")).partition("T")[0]


def _chart(runs: Sequence[Run], name: str, title: str) -> Chart | None:
    lines = []
    for number, run in enumerate(runs):
        points = run.curve(name)
        if len(points) > 1:
            steps, values = zip(*points, strict=True)
            lines.append(Line(run.label, steps, values, number))
    return Chart(title[0].upper() + title[1:], "step", title, lines) if lines else None
