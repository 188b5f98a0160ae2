"""Tables of speed say what was measured, and on which machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools import speed_tables

MACHINE = {"cpu": "Slow Chip", "cores": 2, "gpu": "Quick Card"}


def save(folder: Path, scores: dict[str, Any], **settings: Any) -> None:
    (folder / "speed").mkdir(exist_ok=True)
    result = {"scores": scores, "settings": settings, "run": {"machine": MACHINE}}
    (folder / "speed" / "file.json").write_text(json.dumps(result))


def test_a_stage_with_its_machine(tmp_path: Path) -> None:
    contenders = {
        "slow": {"best_ms": 20.0, "median_ms": 30.0, "patches_per_second": 5000, "times_faster": {}},
        "fast": {"best_ms": 10.0, "median_ms": 11.0, "patches_per_second": 10_000, "times_faster": {"slow": 2.5}},
    }
    scores = {"describe": {"title": "100 patches", "contenders": contenders}}
    save(tmp_path, scores, device="cpu", busy_cores=1)
    lines = speed_tables.stage("describe", "file.json")(tmp_path).splitlines()
    assert lines[2:4] == ["| fast | 10,000 | 10 | 11 | 2.5 slow |", "| slow | 5,000 | 20 | 30 |  |"]
    assert lines[-1] == "100 patches; 2 cores, Slow Chip, 1 busy: results/speed/file.json."
    save(tmp_path, scores, device="cuda", busy_cores=0)
    assert "100 patches; Quick Card: results" in speed_tables.stage("describe", "file.json")(tmp_path)


def test_growth_says_how_time_grows(tmp_path: Path) -> None:
    rows = [
        {"keypoints": 500, "seconds": 0.5, "peak_mib": 100.0},
        {"keypoints": 1000, "seconds": 1.0, "peak_mib": 101.0},
    ]
    save(tmp_path, {"hardnet": {"engine": "auto", "rows": rows, "power_of_time": 1.0}}, device="cpu")
    lines = speed_tables.growth("file.json")(tmp_path).splitlines()
    assert lines[2:4] == ["| hardnet | 500 | 0.5 | 1,000 | 100 |  |", "| hardnet | 1,000 | 1 | 1,000 | 101 | 1.00 |"]
    caption = "Time by keypoints, and the power with which it grows; 2 cores, Slow Chip: results/speed/file.json."
    assert lines[-1] == caption


def test_limits_are_shares_of_what_the_machine_did(tmp_path: Path) -> None:
    product = {"best_ms": 100.0, "multiply_adds": 10_000_000_000}
    scores = {
        "limits": {
            "contenders": {
                "matrix product, float32": product,
                "matrix product, bfloat16": product | {"best_ms": 50.0},
                "copy of memory": {"best_ms": 100.0, "bytes": 1_000_000_000},
            }
        },
        "describe": {
            "contenders": {
                "ours": {"model": "m", "engine": "bfloat16", "multiply_adds": 1_000_000, "patches_per_second": 50_000},
                "other": {"patches_per_second": 1},
            }
        },
        "match": {"contenders": {"patchprint, floats": {"best_ms": 10.0}}},
        "sample": {"contenders": {"patchprint, pyramid kept": {"patches_per_second": 1_000_000}}},
    }
    save(tmp_path, scores, device="cpu")
    path = tmp_path / "speed" / "file.json"
    result = json.loads(path.read_text()) | {"data": {"keypoints": [1000, 1000]}}
    path.write_text(json.dumps(result))
    lines = speed_tables.limits("file.json")(tmp_path).splitlines()
    assert lines[2:5] == [
        "| matrix product, float32 | 100 G multiply-adds/s |  |",
        "| matrix product, bfloat16 | 200 G multiply-adds/s |  |",
        "| copy of memory | 10.0 GB/s |  |",
    ]
    assert lines[5] == "| describe, m in bfloat16 | 50 G multiply-adds/s | 25% |"
    assert lines[6] == "| match, floats | 13 G multiply-adds/s | 13% |"
    assert lines[7] == "| sample, patches written | 4.10 GB/s | 41% |"


def test_stations_of_a_folder_say_what_would_limit_it(tmp_path: Path) -> None:
    scores = {"stations_ms": {"detect": 200.0, "describe": 4.0}, "photos_per_second": 7.5}
    save(tmp_path, scores, device="cuda", cores=2)
    path = tmp_path / "speed" / "file.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data": {"sizes": ["8 x 6"], "keypoints": [9]}}))
    lines = speed_tables.folder("file.json")(tmp_path).splitlines()
    assert lines[2:5] == [
        "| detect | 200.0 | one core | 10 |",
        "| describe | 4.0 | GPU | 250 |",
        "| all together |  | 2 cores and the GPU | 7.5 |",
    ]
    assert lines[-1] == "8 x 6 pixels, 9 keypoints; Quick Card: results/speed/file.json."
