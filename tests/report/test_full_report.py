"""The whole page of ``patchprint report``: what stands first, and what makes it."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from patchprint.report.full_report import whole_page
from patchprint.report.page import render
from patchprint.report.runs import read_runs
from patchprint.report.speed_accuracy import Bench
from support.made_runs import bench_result, oxford_result, verification_result, write_run


def test_results_come_first_then_training_pictures_and_cost(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "matches.png"), np.zeros((4, 8, 3), np.uint8))
    runs = read_runs([write_run(tmp_path / "mine", recipe="sdgmnet")])
    page = whole_page([oxford_result("m", 0.5), verification_result("m", 0.5)], runs, [tmp_path / "matches.png"])
    assert [section.heading for section in page.sections] == [
        "oxford",
        "ubc on made",
        "Telling pairs apart",
        "Training",
        "Curves of training",
        "Distances over the training",
        "Images",
        "Where it goes wrong",
        "What it learned from",
        "Cost and commands",
    ]
    assert page.title == "Training of mine"
    assert "mAP 0.5000" in page.verdict and "FPR95 on held-out points falls to 30.00\u00a0%" in page.verdict
    text = render(page)
    for command in ("patchprint eval oxford --model m", "patchprint train sdgmnet --out mine"):
        assert command in text
    assert "a processor (2 cores)" in page.origin


def test_speed_stands_before_results() -> None:
    timed = {"patchprint m": {"best_ms": 100.0, "sha256": "0123456789abcdef", "model": "m"}}
    page = whole_page([oxford_result("m", 0.5)], benches=[Bench.of(bench_result(timed))])
    assert [section.heading for section in page.sections][:2] == ["Speed and accuracy, 2 cores, a processor", "oxford"]


def test_titles_say_what_is_there() -> None:
    assert whole_page([oxford_result("m", 0.5)]).title == "Results of oxford"
    assert whole_page([oxford_result("m", 0.5)], title="Mine").title == "Mine"
    assert render(whole_page()).startswith("<!doctype html>")
