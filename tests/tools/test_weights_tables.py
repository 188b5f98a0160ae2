"""Tables about weights: means, spreads and order are computed from the runs in the result files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools import weights_tables


def save(folder: Path, name: str, scores: dict[str, Any], **more: Any) -> None:
    result = {"scores": scores, "seed": None, "settings": {}, "model": {}, **more}
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(result), encoding="utf-8")


def run(recipe: str, train: str, seed: int, **scores: float) -> dict[str, Any]:
    return {"recipe": recipe, "train": train, "seed": seed, "fpr95": scores}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_comparison_gives_mean_and_spread_of_the_seeds(tmp_path: Path) -> None:
    """The runs of further seeds may lie in further files."""
    save(
        tmp_path,
        "experiments/comparison.json",
        {"runs": [run("hardnet", "x", 0, y=1.0), run("hardnet", "y", 0, x=4.0)]},
    )
    save(tmp_path, "experiments/comparison-seed1.json", {"runs": [run("hardnet", "x", 1, y=2.0)]})
    lines = weights_tables.comparison(tmp_path).splitlines()
    assert cells(lines[0])[1:4] == ["y > x", "x > y", "mean"]
    assert cells(lines[2]) == ["`hardnet`", "4.000", "1.500 ± 0.500", "2.750", "1.52"]


def test_comparison_leaves_out_a_method_that_lacks_a_column(tmp_path: Path) -> None:
    runs = [run("hardnet", "x", 0, y=1.0), run("hardnet", "y", 0, x=1.0), run("cdf", "x", 0, y=1.0)]
    save(tmp_path, "experiments/comparison.json", {"runs": runs})
    text = weights_tables.comparison(tmp_path)
    assert "`hardnet`" in text
    assert "`cdf`" not in text


def test_signs_stand_below_floats(tmp_path: Path) -> None:
    runs = [{**run("hardnet", "x", 0, y=1.0), "fpr95_of_signs": {"y": 3.0}}]
    save(tmp_path, "experiments/comparison.json", {"runs": runs})
    lines = weights_tables.comparison(tmp_path).splitlines()
    assert cells(lines[3])[:2] == ["`hardnet`, signs", "3.000"]


def test_statistics_average_over_training_sets(tmp_path: Path) -> None:
    names = ("positive", "positive_std", "negative", "negative_std", "relative", "relative_std")
    runs = []
    for value in (1.0, 2.0):
        lines = [
            {
                "step": step,
                **{f"loss/{name}": value for name in names},
                "loss/power_positive": 100 * value,
                "loss/power_negative": 9,
            }
            for step in range(10, 60, 10)
        ]
        runs.append({**run("sdgmnet", f"set{value}", 0), "statistics": lines})
    save(tmp_path, "experiments/comparison.json", {"runs": runs})
    lines = weights_tables.statistics(tmp_path).splitlines()
    assert cells(lines[2]) == ["10", *["1.500"] * 6, "150", "9"]
    assert len([line for line in lines if line.startswith("| ")]) == 2 + 5


def test_tries_are_named_after_their_run(tmp_path: Path) -> None:
    scale = {"24": {"depth": {"a": 0.9, "b": 0.7}, "flat": 0.5, "mean": 0.65}}
    save(tmp_path, "experiments/choice-tries.json", {"runs/tries/one/best.safetensors": scale})
    assert cells(weights_tables.tries(tmp_path).splitlines()[2]) == ["`one`", "24 sigma", "0.8000", "0.5000", "0.6500"]


@pytest.mark.parametrize("ratio", [None, 0.8])
def test_eth_shows_the_ratio_test_and_colmap(tmp_path: Path, ratio: float | None) -> None:
    sparse = {"registered": 11, "photos": 11, "points": 1234, "observations": 5678, "track_length": 4.6}
    sparse["reprojection_error_px"] = 0.5
    for scene in ("fountain", "herzjesu"):
        scores = {**sparse, "colmap_sift": sparse}
        save(tmp_path, f"eth/{scene}-m.json", scores, model={"name": "m"}, settings={"ratio": ratio})
    lines = weights_tables.eth(tmp_path).splitlines()
    assert cells(lines[2])[:5] == ["fountain, m", f"{ratio:g}" if ratio else "none", "11 of 11", "1,234", "5,678"]
    assert cells(lines[3])[0] == "fountain, COLMAP's own SIFT"
