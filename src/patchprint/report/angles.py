"""Histograms of the angles between descriptors over a training."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from patchprint.report.charts import Chart, Line
from patchprint.report.page import Section
from patchprint.report.runs import Run
from patchprint.training.diagnostics import BINS
from patchprint.training.run_folder import read_lines

MOST = 3  # moments of a run
_TITLES = {"positive": "two views of one point", "negative": "nearest other point of the batch"}
_NOTE = "Descriptors at an angle of 1.05 rad (60°) have the distance 1."


def angle_sections(runs: Sequence[Run]) -> list[Section]:
    """Return a section for the runs that recorded angles.jsonl."""
    parts = []
    for run in runs:
        of = f" ({run.label})" if len(runs) > 1 else ""
        for line in _read(run):
            title = f"Angles between descriptors, step {line['step']:,}{of}"
            parts.append(Chart(title, "angle (rad)", "points (%)", _histograms(line), _NOTE))
    return [Section("Distances over the training", parts)] if parts else []


def _read(run: Run) -> list[dict[str, Any]]:
    """Read the lines with complete histograms, at most MOST of them, evenly spaced."""
    file = run.folder / "angles.jsonl"
    lines = read_lines(file, "the angles of a run") if file.is_file() else []
    whole = [
        line for line in lines if isinstance(line.get("step"), int) and all(_is_whole(line.get(n)) for n in _TITLES)
    ]
    places = np.linspace(0, len(whole) - 1, min(len(whole), MOST)).round().astype(int)
    return [whole[place] for place in places]


def _is_whole(counts: Any) -> bool:
    return isinstance(counts, list) and len(counts) == BINS and all(isinstance(count, int) for count in counts)


def _histograms(line: dict[str, Any]) -> list[Line]:
    edges = np.linspace(0, math.pi, BINS + 1)
    centers = (edges[1:] + edges[:-1]) / 2
    return [
        Line(title, centers.tolist(), (100 * np.array(line[name]) / max(sum(line[name]), 1)).tolist(), filled=True)
        for name, title in _TITLES.items()
    ]
