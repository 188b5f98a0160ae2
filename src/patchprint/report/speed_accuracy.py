"""Accuracy against time: weights that ``patchprint bench`` timed and ``patchprint eval oxford`` scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from patchprint.common.errors import parsing
from patchprint.common.safe_io import read_json
from patchprint.common.table import Table, format_number
from patchprint.networks.weights import weight_names
from patchprint.report.charts import Dots
from patchprint.report.page import Section, Text
from patchprint.report.result_comparison import comparable

_BASELINES = {"OpenCV SIFT": "sift"}  # contenders without weights, and their names on Oxford
_ENGINES = {"": "usual engine", "int8": "int8, for folders"}  # as contenders are called, and what that means


class Timed(NamedTuple):
    """Time of one contender; ``known_by`` is the checksum of its weights, or a name on Oxford; ``own``: shipped."""

    engine: str
    milliseconds: float
    known_by: str
    own: bool


class Point(NamedTuple):
    """Time and mAP on Oxford of one model with one engine; ``own``: shipped."""

    model: str
    engine: str
    milliseconds: float
    score: float
    own: bool


@dataclass(frozen=True)
class Bench:
    """The stage "keypoints" of a bench; ``what`` was timed ``where``, in words."""

    what: str
    where: str
    contenders: list[Timed]

    @staticmethod
    def of(result: dict[str, Any]) -> Bench:
        settings, machine = result["settings"], result["run"]["machine"]
        where = machine["gpu"] if settings["device"] == "cuda" else f"{machine['cores']} cores, {machine['cpu']}"
        contenders, shipped = [], weight_names()
        for name, score in result["scores"].get("keypoints", {"contenders": {}})["contenders"].items():
            time = float(score["best_ms"])
            if not 0 < time < math.inf:  # its axis is logarithmic
                raise ValueError(f"{time} is no time")
            known_by = str(score.get("sha256") or _BASELINES.get(name, ""))
            contenders.append(Timed(name.partition(", ")[2], time, known_by, score.get("model") in shipped))
        return Bench(f"{settings['keypoints']:,} keypoints of an image", str(where), contenders)

    def points(self, results: Sequence[dict[str, Any]]) -> list[Point]:
        """Return all contenders that were scored on Oxford with the same weights, at their best patch scale."""
        groups = comparable([result for result in results if result["benchmark"] == "oxford"])
        scored = [each for each in max(groups, key=len, default=[]) if math.isfinite(each["scores"]["map"])]
        best = {
            each["model"]["sha256"] or each["model"]["name"]: each
            for each in sorted(scored, key=lambda each: each["scores"]["map"])
        }
        return [
            Point(found["model"]["name"], timed.engine, timed.milliseconds, found["scores"]["map"], timed.own)
            for timed in self.contenders
            if timed.engine in _ENGINES and (found := best.get(timed.known_by)) is not None
        ]

    def chart(self, shown: Sequence[Point]) -> Dots:
        """Return a chart with a row for each model, the most accurate first: its mAP and its time by engine."""
        scores = {point.model: point.score for point in sorted(shown, key=lambda point: -point.score)}
        times = {(point.model, point.engine): point.milliseconds for point in shown}
        axis = f"ms for {self.what}, {self.where}"
        engines = {meaning: [times.get((model, engine)) for model in scores] for engine, meaning in _ENGINES.items()}
        return Dots(
            "Speed and accuracy",
            list(scores),
            {"Oxford mAP": {"mAP": list(scores.values())}, axis: engines},
            "Blue: shipped with patchprint; orange: others.",
            frozenset({axis}),
            frozenset(point.model for point in shown if not point.own),
        )


def read_benches(files: Sequence[Path]) -> tuple[list[Bench], list[Path]]:
    """Read the results of ``patchprint bench`` among files; return them and the other files."""
    benches, others = [], []
    for path in files:
        value = read_json(path, "a result file, as in results/oxford/*.json", object)
        if isinstance(value, dict) and value.get("benchmark") == "speed":
            with parsing(path, "a result of patchprint bench"):
                benches.append(Bench.of(value))
        else:
            others.append(path)
    return benches, others


def speed_sections(benches: Sequence[Bench], results: Sequence[dict[str, Any]]) -> list[Section]:
    """Return a section for each bench."""
    sections = []
    for bench in benches:
        shown = sorted(bench.points(results), key=lambda point: point.milliseconds)
        rows = [
            [point.model, _ENGINES[point.engine], f"{point.milliseconds:.4g}", format_number(point.score)]
            for point in shown
        ]
        table = Table(["model", "engine", "ms", "Oxford mAP"], rows)
        nothing = Text("No contender of this bench has a result on Oxford here.")
        sections.append(
            Section(f"Speed and accuracy, {bench.where}", [bench.chart(shown), table] if shown else [nothing])
        )
    return sections
