"""Results side by side: groups, published numbers only where the protocol is the same, and files that are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from patchprint.report.result_comparison import compare, read_results


def ubc_result(model: str, fpr95: float, data: str = "sets/liberty", pair_list: str = "official") -> dict[str, Any]:
    return {
        "benchmark": "ubc",
        "settings": {"pairs": 100_000, "split": "all"},
        "model": {"name": model, "sha256": "", "patch_scale": 12.0},
        "data": {"path": data, "sha256": data},
        "seed": 0,
        "scores": {"fpr95": fpr95, "roc_auc": 0.99, "pair_list": pair_list},
    }


def test_same_protocol_is_one_table_with_published_rows() -> None:
    tables = compare([ubc_result("a", 1.0), ubc_result("b", 2.0), ubc_result("a", 3.0, "sets/yosemite")])
    assert len(tables) == 2
    rows = dict(tables[0].rows)
    assert rows["a"] == [1.0, 0.99]
    assert rows["published: SIFT"] == [29.84, None]
    assert rows["published: HyNet (nd>lib)"] == [0.89, None]
    assert rows["published: HyNet (yos>lib)"] == [1.37, None]
    assert dict(tables[1].rows)["published: SDGMNet (best test epoch) (nd>yos)"] == [0.76, None]


def test_a_setting_that_came_later_has_its_default() -> None:
    old, new = ubc_result("a", 1.0), ubc_result("b", 2.0)
    new["settings"] = {**new["settings"], "ties": "fair"}
    assert len(compare([old, new])) == 1
    new["settings"] = {**new["settings"], "ties": "official"}
    assert len(compare([old, new])) == 2


def test_eth_shows_colmap_and_the_papers() -> None:
    scores = {
        "photos": 8, "registered": 8, "points": 9000, "observations": 40000, "track_length": 4.4, "reprojection_error_px": 0.6,
        "inlier_matches": 50000,
    }  # fmt: skip
    result = {
        "benchmark": "eth", "settings": {"ratio": None, "keypoints": 8192}, "model": {"name": "m", "patch_scale": 24.0},
        "data": {"path": "eth/herzjesu", "sha256": "x"}, "seed": 0,
        "scores": {**scores, "colmap_sift": {**scores, "points": 8000}},
    }  # fmt: skip
    rows = dict(compare([result])[0].rows)
    assert rows["m at 24 sigma"][1] == 9000
    assert rows["COLMAP's own SIFT"][1] == 8000
    assert rows["published: SDGMNet (other keypoints)"][:2] == [8, 9000.0]
    other_photos = {**result, "scores": {**result["scores"], "photos": 25}}
    assert not any(label.startswith("published") for label, _ in compare([other_photos])[0].rows)
    south = {**result, "data": {"path": "eth/South-Building", "sha256": "x"}}
    south["scores"] = {**result["scores"], "photos": 128}
    assert dict(compare([south])[0].rows)["published: HyNet (other keypoints)"][:2] == [128, 166_000]
    with_ratio = {**result, "settings": {"ratio": 0.8, "keypoints": 8192}}
    assert not any(label.startswith("published") for label, _ in compare([with_ratio])[0].rows)


def test_files_that_are_no_results(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no result files"):
        read_results([])
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ValueError, match=r"a\.json is not JSON"):
        read_results([tmp_path / "a.json"])
    (tmp_path / "a.json").write_text('{"other": 1}')
    with pytest.raises(ValueError, match="is not a result of patchprint eval"):
        read_results([tmp_path / "a.json"])
    (tmp_path / "a.json").write_text(json.dumps([ubc_result("a", 1.0), ubc_result("b", 1.0)]))
    assert len(read_results([tmp_path / "a.json"])) == 2
