"""Distributions of angles over a training, and SDGMNet's weights over them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from patchprint.losses.sdgm import SDGMLoss, Spread
from patchprint.report.angles import MOST_PANELS, angle_sections
from patchprint.report.charts import Line, Panels
from patchprint.report.runs import read_run
from patchprint.training.diagnostics import BINS
from support.made_runs import write_run


def charts(folder: Path) -> list[Panels]:
    return [
        part for section in angle_sections([read_run(folder)]) for part in section.parts if isinstance(part, Panels)
    ]


def last(chart: Panels) -> list[Line]:
    return list(list(chart.panels.values())[-1])


def test_shares_of_a_plain_run(tmp_path: Path) -> None:
    (chart,) = charts(write_run(tmp_path / "mine"))
    assert [line.label for line in last(chart)] == ["two views of one point", "nearest other point of the batch"]
    assert list(chart.panels) == ["step 6", "step 12"]
    assert all(sum(line.y) == pytest.approx(100) for lines in chart.panels.values() for line in lines)
    assert last(chart)[0].x[0] == pytest.approx(math.pi / BINS / 2)


def test_weights_of_sdgmnet_are_those_of_its_loss(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine", recipe="sdgmnet")
    pairs, triplets = charts(folder)
    assert max(last(pairs)[0].y) == 1, "scaled to its peak"
    angles = torch.tensor(last(pairs)[0].x, dtype=torch.float64)
    own, other, between = (
        Spread(torch.tensor(mean).double(), torch.tensor(std).double())
        for mean, std in ((0.7, 0.2), (1.1, 0.1), (-0.4, 0.25))
    )
    loss = SDGMLoss(coupled="none")
    expected = loss.weights(angles, angles, own, other, between)
    assert last(pairs)[2].y == pytest.approx(expected[0].tolist())
    assert last(pairs)[3].y == pytest.approx(expected[1].tolist())
    weight = list(last(triplets)[1].y)
    assert weight[0] == 0 and weight[-1] == pytest.approx(1.0)
    assert sum(0 < value < 0.6 for value in weight) == 0, "below the margin of 0.6 a triplet counts nothing"


def test_weights_are_one_while_sdgmnet_warms_up(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine", recipe="sdgmnet", steps=40)
    line = json.loads((folder / "angles.jsonl").read_text().splitlines()[0])
    (folder / "angles.jsonl").write_text(json.dumps({**line, "step": 4}) + "\n")
    pairs, triplets = charts(folder)
    assert set(last(pairs)[2].y) == {1.0} and set(last(triplets)[1].y) == {1.0}


def test_settings_that_lack_the_steps_are_completed(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine", recipe="sdgmnet")
    config = json.loads((folder / "config.json").read_text())
    del config["steps"]
    (folder / "config.json").write_text(json.dumps(config))
    assert len(charts(folder)) == 2


def test_many_moments_are_thinned_and_damaged_lines_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "mine")
    line = json.loads((folder / "angles.jsonl").read_text().splitlines()[0])
    lines = [{**line, "step": step} for step in range(1, 300)]
    lines += [{"step": 300}, {**line, "step": "x"}, {**line, "positive": [1]}, {**line, "positive": ["a"] * BINS}]
    (folder / "angles.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines) + "{")
    (chart,) = charts(folder)
    assert len(chart.panels) == MOST_PANELS and list(chart.panels)[-1] == "step 299"
