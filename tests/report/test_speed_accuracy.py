"""Speed and accuracy together: who is in the chart, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchprint.common.errors import UserError
from patchprint.report.charts import Dots
from patchprint.report.page import Text
from patchprint.report.speed_accuracy import Bench, read_benches, speed_sections
from support.made_runs import bench_result, oxford_result


def scored(name: str, checksum: str, value: float, scale: float = 24.0) -> dict[str, Any]:
    return {**oxford_result(name, value), "model": {"name": name, "sha256": checksum, "patch_scale": scale}}


TIMED = {
    "patchprint sdgmnet": {"best_ms": 400.0, "sha256": "aa", "model": "sdgmnet"},
    "patchprint sdgmnet, int8": {"best_ms": 100.0, "sha256": "aa", "model": "sdgmnet"},
    "patchprint sdgmnet, float32": {"best_ms": 900.0, "sha256": "aa", "model": "sdgmnet"},
    "patchprint hynet": {"best_ms": 300.0, "sha256": "bb", "model": "hynet"},
    "patchprint DesDis-32.pth": {"best_ms": 200.0, "sha256": "dd", "model": "peers/DesDis-32.pth"},
    "OpenCV SIFT": {"best_ms": 90.0},
    "OpenCV ORB": {"best_ms": 4.0},
}
SCORED = [
    scored("sdgmnet", "aa", 0.7),
    scored("hynet", "trained again", 0.8),
    scored("desdis-32", "dd", 0.6, 24.0),
    scored("desdis-32", "dd", 0.65, 32.0),
    scored("sift", "", 0.5),
]


def test_those_with_both_numbers_of_the_same_weights_are_shown() -> None:
    shown = Bench.of(bench_result(TIMED)).points(SCORED)
    assert shown == [
        ("sdgmnet", "", 400.0, 0.7, True),
        ("sdgmnet", "int8", 100.0, 0.7, True),
        ("desdis-32", "", 200.0, 0.65, False),
        ("sift", "", 90.0, 0.5, False),
    ]


def test_numbers_of_another_protocol_stay_out() -> None:
    other = scored("sift", "", 0.9)
    other["settings"] = {"px": 2.0}
    assert 0.9 not in [point.score for point in Bench.of(bench_result(TIMED)).points([other, *SCORED])]


def test_a_section_has_the_chart_or_says_why_not() -> None:
    bench = Bench.of(bench_result(TIMED))
    (section,) = speed_sections([bench], SCORED)
    chart = section.parts[0]
    assert isinstance(chart, Dots)
    assert chart.rows == ["sdgmnet", "desdis-32", "sift"]  # best first
    assert chart.panels["ms for 2,000 keypoints of an image, 2 cores, a processor"] == {
        "usual engine": [400.0, 200.0, 90.0],
        "int8, for folders": [100.0, None, None],
    }
    assert chart.highlighted == {"desdis-32", "sift"}
    assert isinstance(speed_sections([bench], [])[0].parts[0], Text)


def test_benches_are_told_from_other_results(tmp_path: Path) -> None:
    files = [tmp_path / "oxford.json", tmp_path / "bench.json"]
    for file, content in zip(files, (SCORED[0], bench_result(TIMED)), strict=True):
        file.write_text(json.dumps(content))
    benches, others = read_benches(files)
    assert others == files[:1] and len(benches) == 1
    for wrong in (0.0, "fast", float("nan")):
        files[1].write_text(json.dumps(bench_result({"OpenCV SIFT": {"best_ms": wrong}})))
        with pytest.raises(UserError, match=r"bench\.json"):
            read_benches(files)
