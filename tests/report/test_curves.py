"""Which results become curves, and of what."""

from __future__ import annotations

from typing import Any

import pytest

from patchprint.report import curves

pytest.importorskip("matplotlib")


def result(benchmark: str, scores: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "settings": settings,
        "model": {"name": "m", "patch_scale": 12.0},
        "data": {"path": "x/set", "sha256": ""},
        "scores": scores,
    }


ROTATION = result("rotation", {"degrees": [0, 90], "oriented": [1.0, 0.9], "upright": [1.0, 0.1]})
SCALE = result("scale", {"factor": [1, 2], "oriented": [1.0, 0.5], "upright": [1.0, 0.6]})
PAIR = {"ap": 0.5, "curve": {"precision": [1.0, 0.5], "recall": [0.1, 0.5]}}
OXFORD = {
    "sequences": {"graf": 0.5, "wall": 0.5},
    "pairs": {f"{s}/1-{n}": PAIR for s in ("graf", "wall") for n in (2, 3)},
}


def test_a_section_for_each_kind_of_curve() -> None:
    sections = curves.curve_sections([SCALE, ROTATION, ROTATION, result("oxford", OXFORD, curves=True)])
    assert [section.heading for section in sections] == [
        "Robustness to rotation",
        "Robustness to scale",
        "Precision and recall along sequences",
    ]
    assert all(len(section.figures) == 1 for section in sections)


def test_results_without_curves_have_no_section() -> None:
    assert curves.curve_sections([result("oxford", OXFORD), result("ubc", {"fpr95": 1.0})]) == []


def test_lines_show_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(curves, "_close", lambda pyplot, figure, caption: (drawn.append(figure), pyplot.close(figure)))
    curves.curve_sections([ROTATION, result("oxford", OXFORD, curves=True)])
    robustness, precision = drawn
    assert [line.get_ydata().tolist() for line in robustness.axes[0].lines] == [[1.0, 0.9], [1.0, 0.1]]
    assert [axes.get_title() for axes in precision.axes[:2]] == ["graf/1-3", "wall/1-3"]
    assert precision.axes[0].lines[0].get_xdata().tolist() == [0.1, 0.5]
