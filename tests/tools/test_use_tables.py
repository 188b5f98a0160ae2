"""Tables about prints in use show what the result files hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools import use_tables

RUN = {"machine": {"cores": 2}, "seconds": 600}


def save(folder: Path, name: str, scores: dict[str, Any]) -> None:
    result = {"scores": scores, "run": RUN, "seed": 0, "model": {"name": "m"}}
    (folder / "experiments").mkdir(exist_ok=True)
    (folder / "experiments" / name).write_text(json.dumps(result), encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]


def test_inliers_by_pair_and_rule(tmp_path: Path) -> None:
    found = {"mutual": {"inliers": 7}, "mutual, ratio 0.8": {"inliers": 5}}
    save(tmp_path, "inliers.json", {"graf": {"sift": found, "possible": {"near": 9}}, "stereo": {"sift": found}})
    header, _, only = rows(use_tables.inliers(tmp_path))
    assert header[1] == "graf: mutual"
    assert only == ["sift", "7", "5", "", "7", "5", ""]


def test_the_verdict_by_group_of_pairs(tmp_path: Path) -> None:
    different = {"pairs": 9, "models_without_verdict": 7, "false_models": 1}
    same = {"pairs": 30, "recovered": 20, "kept": 19, "kept_share": 0.95, "kept_right": 18}
    scores = {"default": {"different": {"all": different}, "same": {"all": same}}}
    (tmp_path / "verdict.json").write_text(json.dumps({"scores": scores}), encoding="utf-8")
    _, _, first, second = rows(use_tables.verdict(tmp_path))
    assert first == ["default", "different: all", "9", "", "7 models before, 1 now"]
    assert second == ["default", "same: all", "30", "20", "19 kept (95.0 %), 18 right"]


def test_models_show_the_error_of_the_cameras_where_it_is_known(tmp_path: Path) -> None:
    numbers = {"registered": 2, "photos": 3, "points": 1000, "observations": 5000, "track_length": 5.0}
    numbers["reprojection_error_px"] = 0.4
    known = {**numbers, "against_true_cameras": {"position": {"median": 0.0023}}}
    save(tmp_path, "sfm-fountain.json", {"ours": known, "other": numbers})
    _, _, ours, other = rows(use_tables.sfm(tmp_path))
    assert ours == ["ours", "2 of 3", "1,000", "5,000", "5.00", "0.40", "0.0023"]
    assert other[-1] == ""


def test_compressions_from_large_to_small(tmp_path: Path) -> None:
    save(
        tmp_path,
        "compression.json",
        {"bits": {"bytes": 16, "map": 0.5, "loss": 0.1}, "fp16": {"bytes": 256, "map": 0.6, "loss": 0}},
    )
    assert [row[:2] for row in rows(use_tables.compression(tmp_path))[2:]] == [["`fp16`", "256"], ["`bits`", "16"]]


def test_tuning_shows_verified_matches_and_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    scores = {"start": {"inliers": 20.0}, "tuned": {"inliers": 21.26}}
    result = {"scores": scores, "model": {"verdict": "gained"}}
    (tmp_path / "experiments" / "adapt-sea.json").write_text(json.dumps(result), encoding="utf-8")
    text = use_tables.adapted("adapt-sea.json", "the sea")(tmp_path)
    assert rows(text)[3] == ["tuned", "21.3"]
    assert "on the sea, verdict: gained" in text
