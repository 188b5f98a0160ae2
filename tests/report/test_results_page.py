"""Runs and results as sections of a page."""

from __future__ import annotations

from patchprint.report.page import render
from patchprint.report.results_page import results_page


def oxford_result(model: str, value: float) -> dict:
    return {
        "benchmark": "oxford",
        "settings": {"px": 4.0},
        "model": {"name": model, "sha256": "0123456789abcdef", "patch_scale": 12.0},
        "data": {"path": "x/oxford", "sha256": "d"},
        "seed": 0,
        "scores": {"map": value, "sequences": {"graf": value / 2}},
        "run": {"command": f"patchprint eval oxford --model {model}", "date": "today", "seconds": 1.0, "peak_mib": 2.0},
    }


def test_best_numbers_are_marked_and_commands_are_named() -> None:
    text = render(results_page([oxford_result("<b>", 0.5), oxford_result("other", 0.75)]))
    assert '<td class="best">0.7500</td>' in text
    assert "0.5000" in text
    assert "<b>" not in text
    assert "&lt;b&gt;" in text
    assert "patchprint eval oxford --model other" in text
