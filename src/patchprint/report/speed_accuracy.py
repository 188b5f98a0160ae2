"""Accuracy against time: weights that ``patchprint bench`` timed and ``patchprint eval oxford`` scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchprint.common.errors import parsing
from patchprint.common.safe_io import read_json
from patchprint.common.table import Table, format_number
from patchprint.networks.weights import weight_names
from patchprint.report.charts import Dots
from patchprint.report.page import Part, Section, Text
from patchprint.report.result_comparison import comparable

_BASELINES = {"OpenCV SIFT": "sift"}  # contenders without weights, and their names on Oxford
_ENGINES = {"": "usual engine", "int8": "int8, for folders"}  # as contenders are called, and what that means


@dataclass(frozen=True)
class Timed:
    """Time of one contender; ``known_by`` is the checksum of its weights, or a name on Oxford; ``own``: shipped."""

    engine: str
    milliseconds: float
    known_by: str
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
        shipped = weight_names()
        contenders = [
            Timed(
                name.partition(", ")[2],
                _positive(score["best_ms"]),
                str(score.get("sha256") or _BASELINES.get(name, "")),
                score.get("model") in shipped,
            )
            for name, score in result["scores"].get("keypoints", {"contenders": {}})["contenders"].items()
        ]
        where = machine["gpu"] if settings["device"] == "cuda" else f"{machine['cores']} cores, {machine['cpu']}"
        return Bench(f"{settings['keypoints']:,} keypoints of an image", str(where), contenders)


@dataclass(frozen=True)
class Point:
    """Time and mAP on Oxford of one model with one engine; ``own``: shipped."""

    model: str
    engine: str
    milliseconds: float
    score: float
    own: bool


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


def points(bench: Bench, results: Sequence[dict[str, Any]]) -> list[Point]:
    """Return all contenders that were scored on Oxford with the same weights, at their best patch scale."""
    groups = comparable([result for result in results if result["benchmark"] == "oxford"])
    best: dict[str, dict[str, Any]] = {}
    largest: list[dict[str, Any]] = max(groups, key=len, default=[])
    for result in sorted(largest, key=lambda result: result["scores"]["map"]):
        if math.isfinite(result["scores"]["map"]):
            best[result["model"]["sha256"] or result["model"]["name"]] = result
    return [
        Point(found["model"]["name"], timed.engine, timed.milliseconds, found["scores"]["map"], timed.own)
        for timed in bench.contenders
        if timed.engine in _ENGINES and (found := best.get(timed.known_by)) is not None
    ]


def _positive(value: Any) -> float:
    """Return a time, which must be positive on a logarithmic axis."""
    if not (isinstance(value, int | float) and 0 < value < math.inf):
        raise ValueError(f"{value!r} is no time")
    return float(value)


def chart(bench: Bench, shown: Sequence[Point]) -> Dots:
    """Return a chart with a row for each model, the most accurate first: its mAP and its time by engine."""
    models = list(dict.fromkeys(point.model for point in sorted(shown, key=lambda point: -point.score)))
    scores = {point.model: point.score for point in shown}
    times = {(point.model, point.engine): point.milliseconds for point in shown}
    axis = f"ms for {bench.what}, {bench.where}"
    engines = {meaning: [times.get((model, engine)) for model in models] for engine, meaning in _ENGINES.items()}
    return Dots(
        "Speed and accuracy",
        models,
        {"Oxford mAP": {"mAP": [scores[model] for model in models]}, axis: engines},
        "Blue: shipped with patchprint; orange: others.",
        frozenset({axis}),
        frozenset(point.model for point in shown if not point.own),
    )


def speed_sections(benches: Sequence[Bench], results: Sequence[dict[str, Any]]) -> list[Section]:
    """Return a section for each bench."""
    return [Section(f"Speed and accuracy, {bench.where}", _parts(bench, points(bench, results))) for bench in benches]


def _parts(bench: Bench, shown: list[Point]) -> list[Part]:
    if not shown:
        return [Text("No contender of this bench has a result on Oxford here.")]
    rows = [
        [point.model, _ENGINES[point.engine], f"{point.milliseconds:.4g}", format_number(point.score)]
        for point in sorted(shown, key=lambda point: point.milliseconds)
    ]
    return [chart(bench, shown), Table(["model", "engine", "ms", "Oxford mAP"], rows)]
