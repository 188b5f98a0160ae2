"""Tables about weights: means, spreads and order are computed from the runs in the result files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchprint.networks import weights
from tools import weights_tables


def save(folder: Path, name: str, scores: dict[str, Any], **more: Any) -> None:
    result = {"scores": scores, "seed": None, "settings": {}, "model": {}, **more}
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(result), encoding="utf-8")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_tries_are_named_after_their_run(tmp_path: Path) -> None:
    scale = {"24": {"depth": {"a": 0.9, "b": 0.7}, "flat": 0.5, "mean": 0.65}}
    save(tmp_path, "experiments/choice-tries.json", {"runs/tries/one/best.safetensors": scale})
    assert cells(weights_tables.choice("choice-tries")(tmp_path).splitlines()[2]) == [
        "`one`",
        "24 sigma",
        "0.8000",
        "0.5000",
        "0.6500",
    ]


@pytest.mark.parametrize("ratio", [None, 0.8])
def test_eth_shows_the_ratio_test_and_colmap(tmp_path: Path, ratio: float | None) -> None:
    sparse = {"registered": 11, "photos": 11, "inlier_matches": 9876, "points": 1234, "observations": 5678}
    sparse |= {
        "track_length": 4.6,
        "reprojection_error_px": 0.5,
        "against_true_cameras": {"position": {"median": 0.00321}},
    }
    for scene in ("fountain", "herzjesu"):
        scores = {**sparse, "colmap_sift": sparse}
        save(tmp_path, f"eth/{scene}-m.json", scores, model={"name": "m"}, settings={"ratio": ratio})
    lines = weights_tables.eth(tmp_path).splitlines()
    assert cells(lines[2])[:2] == ["fountain, m", f"{ratio:g}" if ratio else "none"]
    assert cells(lines[2])[2:] == ["11 of 11", "9,876", "1,234", "5,678", "4.60", "0.50", "0.0032"]
    assert cells(lines[3])[0] == "fountain, COLMAP's own SIFT"


def test_lost_matches_name_the_open_end_of_a_class(tmp_path: Path) -> None:
    classes = [
        {"octaves": [0.0, 0.25], "degrees": [0.0, 10.0], "part": 0.75, "found": {"m": 0.9}},
        {"octaves": [1.0, None], "degrees": [45.0, 181.0], "part": 0.25, "found": {"m": 0.1}},
    ]
    scores = {"pairs": 1234, "found": {"m": 0.7}, "classes": classes}
    save(tmp_path, "experiments/lost-matches.json", scores)
    lines = weights_tables.lost_matches(tmp_path).splitlines()
    assert cells(lines[2]) == ["0 to 0.25 octaves, 0 to 10 degrees", "75.0", "90"]
    assert cells(lines[3]) == ["more than 1 octaves, more than 45 degrees", "25.0", "10"]
    assert cells(lines[4]) == ["all", "100", "70"]


def test_frames_are_told_by_angles_and_by_matches(tmp_path: Path) -> None:
    angles = {"angles within 10": 0.5, "angles within 20": 0.75, "angles within 45": 0.9}
    scores = {
        "warped": {"detector": {"m, AP": 0.45, **angles, "pairs": 12}},
        "real": {"detector": {"m, right": 145.4, "m, precision": 0.3155, "pairs": 18}},
    }
    save(tmp_path, "experiments/frames.json", scores)
    lines = weights_tables.frames(tmp_path).splitlines()
    assert cells(lines[2]) == ["detector", "50", "75", "90", "0.450", "145", "0.316"]
    assert lines[-1].startswith("`m`, 12 warped and 18 real pairs")


def test_costs_are_counted_and_timed_with_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    infos = {info.name: info for info in weights.list_weights() if info.name in ("sdgmnet.tiny", "sdgmnet.bits")}
    monkeypatch.setattr(weights, "list_weights", lambda: list(infos.values()))
    tiny = {"best_ms": 50.0, "sha256": infos["sdgmnet.tiny"].sha256}
    trained_again = {"best_ms": 60.0, "sha256": "another"}
    contenders = {"patchprint sdgmnet.tiny, int8": tiny, "patchprint sdgmnet.bits": trained_again}
    for machine in ("cpu", "h200"):
        save(tmp_path, f"speed/bench-{machine}.json", {"keypoints": {"contenders": contenders if machine == "cpu" else {}}},
             run={"machine": {"cpu": "a processor", "cores": 2, "gpu": None}})  # fmt: skip
    for name, score in (("sdgmnet.tiny", 0.6), ("sdgmnet.bits", 0.7)):
        save(tmp_path, f"oxford/{name}.json", {"map": score})
    first, second = weights_tables.costs(tmp_path).splitlines()[2:4]
    assert cells(first)[0] == "`sdgmnet.bits`" and cells(first)[3:] == ["–", "–", "–", "32", "0.700"]
    assert cells(second) == ["`sdgmnet.tiny`", "180", "1.46", "–", "50", "–", "512", "0.600"]
