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
    assert lines[-1] == "100 patches; 2 cores, Slow Chip, 1 kept busy by another process: results/speed/file.json."
    save(tmp_path, scores, device="cuda", busy_cores=0)
    assert "100 patches; Quick Card: results" in speed_tables.stage("describe", "file.json")(tmp_path)
