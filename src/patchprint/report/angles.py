"""Histograms of angles between descriptors over a training, and SDGMNet's weights over them, as in its Fig. 2."""

from __future__ import annotations

import bisect
import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from patchprint.common.errors import UserError
from patchprint.losses.sdgm import SDGMLoss, Spread
from patchprint.report.charts import Line, Panels
from patchprint.report.page import Part, Section
from patchprint.report.runs import Run
from patchprint.training.config import TrainConfig
from patchprint.training.diagnostics import BINS, LARGEST
from patchprint.training.run_folder import read_lines

MOST_PANELS = 6
_PAIRS = ("positive", "negative")
_TITLES = {"positive": "two views of one point", "negative": "nearest other point of the batch"}
_DISTANCE = "Descriptors at an angle of 1.05 rad (60°) have the distance 1."


def angle_sections(runs: Sequence[Run]) -> list[Section]:
    """Return a section for the runs that recorded angles.jsonl."""
    parts: list[Part] = []
    for run in runs:
        found = _read(run)
        of = f" ({run.label})" if len(runs) > 1 else ""
        if found:
            config = _config_of_sdgm(run)
            if config is None:
                parts.append(_pairs(found, of))
            else:
                known = _Statistics(run)
                parts.append(_weighted_pairs(config, known, found, of))
                parts.append(_weighted_difference(config, known, found, of))
    return [Section("Distances over the training", parts)] if parts else []


def _read(run: Run) -> list[dict[str, Any]]:
    """Read the lines with complete histograms, at most MOST_PANELS of them, evenly spaced."""
    file = run.folder / "angles.jsonl"
    lines = read_lines(file, "the angles of a run") if file.is_file() else []
    whole = [
        line for line in lines if isinstance(line.get("step"), int) and all(_is_whole(line.get(n)) for n in LARGEST)
    ]
    places = np.linspace(0, len(whole) - 1, min(len(whole), MOST_PANELS)).round().astype(int)
    return [whole[place] for place in places]


def _is_whole(counts: Any) -> bool:
    return isinstance(counts, list) and len(counts) == BINS and all(isinstance(count, int) for count in counts)


def _centers(name: str) -> np.ndarray:
    edges = np.linspace(*LARGEST[name], BINS + 1)
    return (edges[1:] + edges[:-1]) / 2


def _shares(counts: Sequence[int]) -> list[float]:
    return [100 * count / max(sum(counts), 1) for count in counts]


def _scaled(counts: Sequence[int]) -> list[float]:
    return [count / max(*counts, 1) for count in counts]


def _pairs(found: Sequence[dict[str, Any]], of: str) -> Panels:
    x = _centers("positive").tolist()
    panels = {
        f"step {line['step']:,}": [
            Line(_TITLES[name], x, _shares(line[name]), color, filled=True) for color, name in enumerate(_PAIRS)
        ]
        for line in found
    }
    return Panels(f"Angles between descriptors{of}", "angle (rad)", "points (%)", panels, _DISTANCE)


def _weighted_pairs(config: TrainConfig, statistics: _Statistics, found: Sequence[dict[str, Any]], of: str) -> Panels:
    """Draw both histograms, and the weight that the loss gives to the gradient of a pair at each angle."""
    centers, loss = _centers("positive"), SDGMLoss(**config.loss_settings)
    alone, x = SDGMLoss(self_weight=loss.self_weight, coupled="none"), centers.tolist()
    panels = {}
    for line in found:
        spreads = statistics.at(line["step"])
        angles = torch.from_numpy(centers)
        weights = [np.ones(BINS).tolist()] * 2
        if spreads is not None and line["step"] > loss.warmup * config.steps:
            weights = [each.tolist() for each in alone.weights(angles, angles, *spreads)]
        panels[f"step {line['step']:,}"] = [
            *(Line(_TITLES[name], x, _scaled(line[name]), k, filled=True) for k, name in enumerate(_PAIRS)),
            *(Line(f"weight of {name}s", x, weights[k], k) for k, name in enumerate(_PAIRS)),
        ]
    note = f"Areas: the points of a batch, each scaled to its peak. Lines: SDGMNet's self weights (its Fig. 2). {_DISTANCE}"
    title = f"Angles between descriptors, and SDGMNet's weights{of}"
    return Panels(title, "angle (rad)", "weight", panels, note)


def _weighted_difference(
    config: TrainConfig, statistics: _Statistics, found: Sequence[dict[str, Any]], of: str
) -> Panels:
    """Draw the histogram of the angle differences of triplets, and the weight that both pairs of a triplet share."""
    centers, loss = _centers("relative"), SDGMLoss(**config.loss_settings)
    shared = SDGMLoss(self_weight="theta", coupled=loss.coupled)
    shared.least_z = loss.least_z
    x = centers.tolist()
    panels = {}
    for line in found:
        spreads = statistics.at(line["step"])
        weight = np.ones(BINS).tolist()
        if spreads is not None and line["step"] > loss.warmup * config.steps:
            angles = torch.from_numpy(centers)
            weight = shared.weights(angles, torch.zeros(BINS, dtype=torch.float64), *spreads)[0].tolist()
        panels[f"step {line['step']:,}"] = [
            Line("triplets of the batch", x, _scaled(line["relative"]), color=2, filled=True),
            Line("weight of triplets", x, weight, color=2),
        ]
    note = "A triplet is hard where its positive pair lies farther apart than its negative one: to the right of 0."
    title = f"Angle to the own view less angle to the nearest other point, and SDGMNet's coupled weight{of}"
    return Panels(title, "difference of angles (rad)", "weight", panels, note)


def _config_of_sdgm(run: Run) -> TrainConfig | None:
    """Return the settings of a run of SDGMNet, None for other runs."""
    with contextlib.suppress(UserError, TypeError):
        config = TrainConfig.from_json(run.config, str(run.folder / "config.json"))
        if config.loss == "sdgm":
            SDGMLoss(**config.loss_settings)  # which must be settings of it
            return config
    return None


class _Statistics:
    """Running statistics of the loss after each logged step."""

    def __init__(self, run: Run) -> None:
        needed = [f"loss/{name}{suffix}" for name in LARGEST for suffix in ("", "_std")]
        found = [line for line in run.metrics if all(math.isfinite(line.get(name, math.nan)) for name in needed)]
        found.sort(key=lambda line: line["step"])
        self.steps = [line["step"] for line in found]
        self.values = [[float(line[name]) for name in needed] for line in found]

    def at(self, step: int) -> tuple[Spread, Spread, Spread] | None:
        """Return the statistics of the last line up to a step; None before the first."""
        place = bisect.bisect_right(self.steps, step) - 1
        if place < 0:
            return None
        numbers = torch.tensor(self.values[place], dtype=torch.float64)
        positive, negative, relative = (Spread(*pair.unbind()) for pair in numbers.view(3, 2).unbind())
        return positive, negative, relative
