"""Which results become curves, and of what."""

from __future__ import annotations

from typing import Any

from patchprint.report import curves
from patchprint.report.charts import Chart
from support.made_runs import verification_result


def result(benchmark: str, scores: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "settings": settings,
        "model": {"name": "m", "patch_scale": 12.0},
        "data": {"path": "x/set", "sha256": ""},
        "seed": 0,
        "scores": scores,
    }


ROTATION = result("rotation", {"degrees": [0, 90], "oriented": [1.0, 0.9], "upright": [1.0, 0.1]})
SCALE = result("scale", {"factor": [1, 2], "oriented": [1.0, 0.5], "upright": [1.0, 0.6]})
PAIR = {"ap": 0.5, "curve": {"precision": [1.0, 0.5], "recall": [0.1, 0.5]}}
OXFORD = {
    "sequences": {"graf": 0.5, "wall": 0.5},
    "pairs": {f"{s}/1-{n}": PAIR for s in ("graf", "wall") for n in (2, 3)},
}


def charts(results: list[dict[str, Any]]) -> list[Chart]:
    return [part for section in curves.curve_sections(results) for part in section.parts if isinstance(part, Chart)]


def test_a_section_for_each_kind_of_curve() -> None:
    several = [SCALE, ROTATION, ROTATION, result("oxford", OXFORD, curves=True), verification_result("m", 0.5)]
    sections = curves.curve_sections(several)
    assert [section.heading for section in sections] == [
        "Telling pairs apart",
        "Robustness to rotation",
        "Robustness to scale",
        "Precision and recall along sequences",
    ]
    assert [len(section.parts) for section in sections] == [2, 1, 1, 2]


def test_results_without_curves_have_no_section() -> None:
    broken = verification_result("m", 0.5)
    broken["scores"]["curves"]["roc"]["recall"] = ["1"]
    assert curves.curve_sections([result("oxford", OXFORD), result("ubc", {"fpr95": 1.0}), broken]) == []


def test_lines_show_the_numbers() -> None:
    robustness, graf, wall = charts([ROTATION, result("oxford", OXFORD, curves=True)])
    assert [line.y for line in robustness.lines] == [[1.0, 0.9], [1.0, 0.1]]
    assert [graf.title, wall.title] == ["graf/1-3, the middle pair", "wall/1-3, the middle pair"]
    assert graf.lines[0].x == [0.1, 0.5]


def test_models_share_the_charts_of_verification() -> None:
    roc, precision = charts([verification_result("good", 0.6), verification_result("bad", 0.2)])
    assert [line.label for line in roc.lines] == ["good", "bad", "recall 95 %"]
    good, bad = (list(line.y) for line in roc.lines[:2])
    assert all(a >= b for a, b in zip(good, bad, strict=True)) and good[-1] == 1.0
    assert roc.logarithmic and precision.lines[0].y[0] == 1.0
