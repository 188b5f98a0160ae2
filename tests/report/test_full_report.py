"""The page of ``patchprint report``: what stands first, tables, bars and curves of results, and the sentence above them."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from patchprint.common.table import Table
from patchprint.report.charts import Chart
from patchprint.report.embedded_images import Gallery
from patchprint.report.full_report import curve_sections, verdict, whole_page
from patchprint.report.page import render
from patchprint.report.result_comparison import compare
from patchprint.report.runs import read_runs
from support.made_runs import oxford_result, verification_result, write_run


def test_results_come_first_then_training_images_and_cost(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "matches.png"), np.zeros((4, 8, 3), np.uint8))
    runs = read_runs([write_run(tmp_path / "mine", recipe="sdgmnet")])
    bare = {name: value for name, value in oxford_result("bare", 0.4).items() if name != "run"}
    results = [verification_result("m", 0.5), oxford_result("m", 0.5), bare]
    page = whole_page(results, runs, [tmp_path / "matches.png"])
    assert [section.heading for section in page.sections] == [
        "oxford",
        "ubc on made",
        "Telling pairs apart",
        "Training",
        "Curves of training",
        "Distances over the training",
        "Images",
        "Where it goes wrong",
        "Cost and commands",
    ]
    assert page.title == "Training of mine"
    assert "mAP 0.5000" in page.verdict and "FPR95 on held-out points falls to 30.00\u00a0%" in page.verdict
    missed = page.sections[7].parts[0]
    assert isinstance(missed, Gallery) and missed.title == "Missed (m, ubc on made)" and len(missed.images) == 3
    costs = [part for part in page.sections[-1].parts if isinstance(part, Table)][1]
    assert costs.rows[1] == ["oxford", "oxford", "m", "0123456789ab", "12.5", "345.6", "2026-01-02"]
    assert costs.rows[2][4:] == ["–", "–", "–"]
    text = render(page)
    for command in ("patchprint eval oxford --model m", "patchprint train sdgmnet --out mine"):
        assert command in text
    assert "a processor (2 cores)" in page.origin


def test_the_verdict_names_the_best_and_sift() -> None:
    results = [oxford_result(name, value) for name, value in (("a", 0.5), ("b", 0.7), ("sift", 0.3), ("c", 0.6))]
    assert verdict(*compare(results)) == "oxford: b comes to mAP 0.7000, sift to 0.3000."
    lower = [verification_result("a", 0.5), verification_result("b", 0.75)]
    assert verdict(*compare(lower)) == "ubc on made: b comes to FPR95 25\u00a0%, a to 50\u00a0%."
    assert verdict(*compare(lower[:1])).endswith("a comes to FPR95 50\u00a0%.")


def test_two_settings_of_one_benchmark_have_names_of_their_own_and_the_larger_comes_first() -> None:
    other = oxford_result("a", 0.5)
    other["settings"] = {"px": 2.0}
    page = whole_page([other, oxford_result("a", 0.5), oxford_result("b", 0.6)])
    assert [section.heading for section in page.sections][:2] == ["oxford (px 4.0)", "oxford (px 2.0)"]


def result(benchmark: str, scores: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {**oxford_result("m", 0.5), "benchmark": benchmark, "settings": settings, "scores": scores}


ROTATION = result("rotation", {"degrees": [0, 90], "oriented": [1.0, 0.9], "upright": [1.0, 0.1]})
PAIR = {"ap": 0.5, "curve": {"precision": [1.0, 0.5], "recall": [0.1, 0.5]}}
OXFORD = {
    "sequences": {"graf": 0.5, "wall": 0.5},
    "pairs": {f"{s}/1-{n}": PAIR for s in ("graf", "wall") for n in (2, 3)},
}


def charts(results: list[dict[str, Any]]) -> list[Chart]:
    return [part for section in curve_sections(results) for part in section.parts if isinstance(part, Chart)]


def test_a_section_for_each_kind_of_curve() -> None:
    several = [ROTATION, ROTATION, result("oxford", OXFORD, curves=True), verification_result("m", 0.5)]
    assert [(section.heading, len(section.parts)) for section in curve_sections(several)] == [
        ("Telling pairs apart", 2),
        ("Robustness to rotation", 1),
        ("Precision and recall along sequences", 2),
    ]


def test_results_without_curves_have_no_section() -> None:
    broken = verification_result("m", 0.5)
    broken["scores"]["curves"]["roc"]["recall"] = ["1"]
    assert curve_sections([result("oxford", OXFORD), result("ubc", {"fpr95": 1.0}), broken]) == []
