"""Histograms of angles between descriptors over a training, and SDGMNet's weights over them, as in its Fig. 2."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from operator import itemgetter
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
_TITLES = {
    "positive": "two views of one point",
    "negative": "nearest other point of the batch",
    "relative": "triplets of the batch",
}
_WEIGHTS = {"positive": "weight of positives", "negative": "weight of negatives", "relative": "weight of triplets"}
_PAIRS = ("positive", "negative")
_DISTANCE = "Descriptors at an angle of 1.05 rad (60°) have the distance 1."

WeightsAt = Callable[[int], dict[str, np.ndarray]]


def angle_sections(runs: Sequence[Run]) -> list[Section]:
    """Return a section for the runs that recorded angles.jsonl."""
    parts: list[Part] = []
    for run in runs:
        lines = _read(run)
        of = f" ({run.label})" if len(runs) > 1 else ""
        weights = _sdgm_weights(run) if lines else None
        if lines and weights is None:
            panels = _panels(lines, _PAIRS, lambda counts: 100 * counts / max(counts.sum(), 1))
            parts.append(Panels(f"Angles between descriptors{of}", "angle (rad)", "points (%)", panels, _DISTANCE))
        elif lines:
            parts += [
                Panels(
                    f"Angles between descriptors, and SDGMNet's weights{of}",
                    "angle (rad)",
                    "weight",
                    _panels(lines, _PAIRS, _peak_one, weights),
                    "Areas: the points of a batch, each scaled to its peak. Lines: SDGMNet's self weights (its Fig. 2). "
                    + _DISTANCE,
                ),
                Panels(
                    f"Angle to the own view less angle to the nearest other point, and SDGMNet's coupled weight{of}",
                    "difference of angles (rad)",
                    "weight",
                    _panels(lines, ("relative",), _peak_one, weights),
                    "A triplet is hard where its positive pair lies farther apart than its negative one: to the right of 0.",
                ),
            ]
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


def _panels(
    lines: Sequence[dict[str, Any]],
    names: Sequence[str],
    scale: Callable[[np.ndarray], np.ndarray],
    weights: WeightsAt | None = None,
) -> dict[str, list[Line]]:
    """Return a panel for each step, with an area for the histogram of each name, and its weight as a line."""
    panels = {}
    x, colors = _centers(names[0]).tolist(), [list(LARGEST).index(name) for name in names]
    for line in lines:
        shown = panels[f"step {line['step']:,}"] = [
            Line(_TITLES[name], x, scale(np.array(line[name])).tolist(), color, filled=True)
            for name, color in zip(names, colors, strict=True)
        ]
        if weights is not None:
            of_step = weights(line["step"])
            shown += [
                Line(_WEIGHTS[name], x, of_step[name].tolist(), color)
                for name, color in zip(names, colors, strict=True)
            ]
    return panels


def _centers(name: str) -> np.ndarray:
    edges = np.linspace(*LARGEST[name], BINS + 1)
    return (edges[1:] + edges[:-1]) / 2


def _peak_one(counts: np.ndarray) -> np.ndarray:
    return counts / max(counts.max(), 1)


def _sdgm_weights(run: Run) -> WeightsAt | None:
    """Return the weights of SDGMNet's loss over the angles by step, all one while it warms up; None for other losses."""
    try:
        config = TrainConfig.from_json(run.config, str(run.folder / "config.json"))
        if config.loss != "sdgm":
            return None
        loss = SDGMLoss(**config.loss_settings)
    except (UserError, TypeError):  # settings of an older version
        return None
    alone = SDGMLoss(self_weight=loss.self_weight, coupled="none")
    shared = SDGMLoss(self_weight="theta", coupled=loss.coupled)
    shared.least_z = loss.least_z
    angles, differences = (torch.from_numpy(_centers(name)) for name in ("positive", "relative"))
    needed = [f"loss/{name}{suffix}" for name in LARGEST for suffix in ("", "_std")]
    known = [line for line in run.metrics if all(math.isfinite(line.get(name, math.nan)) for name in needed)]
    known.sort(key=itemgetter("step"))

    def weights(step: int) -> dict[str, np.ndarray]:
        place = bisect.bisect_right(known, step, key=itemgetter("step"))
        if not place or step <= loss.warmup * config.steps:
            return dict.fromkeys(LARGEST, np.ones(BINS))
        numbers = torch.tensor([float(known[place - 1][name]) for name in needed], dtype=torch.float64)
        spreads = [Spread(*pair.unbind()) for pair in numbers.view(3, 2).unbind()]
        found = *alone.weights(angles, angles, *spreads), shared.weights(differences, angles * 0, *spreads)[0]
        return {name: each.numpy() for name, each in zip(LARGEST, found, strict=True)}

    return weights
