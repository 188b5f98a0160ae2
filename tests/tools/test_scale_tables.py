"""Tables about many photos show what the result files hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perf.scale import cost
from tools import scale_tables

STAGE = {"seconds": 9.0, "cpu_seconds": 4.0, "peak_mib": 500, "files": 3, "mib": 8.0}
SCORES = {
    "100": {
        "describe, shards": {**STAGE, "photos": 100, "keypoints": 50_000},
        "match, retrieval": {**STAGE, "photos": 100, "pairs": 1000, "cpu_seconds": 14.0},
        "match, all pairs": {**STAGE, "photos": 100, "pairs": 4950, "cpu_seconds": 49.5},
    }
}


def save(folder: Path, name: str, scores: dict[str, Any], settings: dict[str, Any] | None = None) -> None:
    (folder / "scale").mkdir(exist_ok=True)
    (folder / "scale" / name).write_text(json.dumps({"scores": scores, "settings": settings or {}}), encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_recall_of_every_set_and_the_model_of_one(tmp_path: Path) -> None:
    row = {"pairs": 30, "share_of_all_pairs": 0.25, "recall_of_15_inliers": 0.5, "recall_of_30_inliers": 0.75}
    model = {
        "photos": 9,
        "registered": 8,
        "points": 7,
        "reprojection_error_px": 0.5,
        "pairs": 36,
        "matching_seconds": 20.0,
    }
    both = {"exhaustive": model, "retrieval": {**model, "pairs": 12, "choosing_seconds": 1.0, "matching_seconds": 4.0}}
    shares = {"neighbors": 20, "share_of_registered": 0.99, "share_of_matching_time": 0.25}
    save(
        tmp_path, "retrieval.json", {"towers": {"photos": 9, "neighbors": {"20": row}}, "reconstruction": both | shares}
    )
    assert rows(scale_tables.retrieval(tmp_path))[2:] == [["towers", "9", "20", "30 (25%)", "0.500", "0.750"]]
    text = scale_tables.reconstruction(tmp_path)
    assert rows(text)[2] == ["all pairs", "36", "8/9", "7", "0.50", "20"]
    assert rows(text)[3] == ["retrieval, 20 neighbors", "12", "8/9", "7", "0.50", "5"]
    assert "99.0% of the photos in 25% of the time" in text


def test_growth_and_what_follows_from_it(tmp_path: Path) -> None:
    save(tmp_path, "growth.json", SCORES, {"model": "m", "keypoints": 500})
    assert rows(scale_tables.growth(tmp_path))[3] == ["100", "match, retrieval", "1000", "14", "9", "500", "3", "8"]
    unit = cost.unit_costs(SCORES)
    # A pair takes 49.5 s / 4950; what is left of 14 s for 1000 pairs was pooling of 100 photos.
    assert unit["match_cpu_seconds_per_pair"] == 0.01 and unit["pool_cpu_seconds_per_photo"] == 0.04
    assert unit["describe_cpu_seconds_per_photo"] == 0.04 and unit["pairs_per_photo"] == 10
    paper = cost.cost(1_000_000, unit, 20)
    assert paper["prints"] == 500_000_000 and paper["feature_files"] == 3908
    assert paper["core_hours"]["match_retrieval"] == round(1e7 * 0.01 / 3600, 2)
    assert paper["core_hours"]["match_all"] > 1e6
    save(tmp_path, "cost.json", {"photos": {"1000000": paper}}, {"assumed": cost.ASSUMED})
    assert rows(scale_tables.cost(tmp_path))[2][:3] == ["1,000,000", "5.0e+08", "11.1"]
