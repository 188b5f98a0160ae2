"""Distributions of angles over a training."""

import json
import math
from pathlib import Path

import pytest

from patchprint.report.angles import MOST, angle_sections
from patchprint.report.charts import Chart
from patchprint.report.runs import read_run
from patchprint.training.diagnostics import BINS
from support.made_runs import write_run


def charts(folder: Path) -> list[Chart]:
    return [part for section in angle_sections([read_run(folder)]) for part in section.parts if isinstance(part, Chart)]


def test_shares_of_a_run(tmp_path: Path) -> None:
    found = charts(write_run(tmp_path / "mine"))
    assert [chart.title for chart in found] == [f"Angles between descriptors, step {step}" for step in (6, 12)]
    own, other = found[-1].lines
    assert (own.label, other.label) == ("two views of one point", "nearest other point of the batch")
    assert own.x[0] == pytest.approx(math.pi / BINS / 2)
    assert all(sum(line.y) == pytest.approx(100) for chart in found for line in chart.lines)


def test_many_moments_are_thinned_and_damaged_lines_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine")
    line = json.loads((folder / "angles.jsonl").read_text().splitlines()[0])
    lines = [{**line, "step": step} for step in range(1, 300)]
    lines += [{"step": 300}, {**line, "step": "x"}, {**line, "positive": [1]}, {**line, "positive": ["a"] * BINS}]
    (folder / "angles.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines) + "{")
    found = charts(folder)
    assert len(found) == MOST and found[-1].title.endswith("step 299")
