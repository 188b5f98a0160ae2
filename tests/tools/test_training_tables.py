"""Tables of training by several processes."""

from __future__ import annotations

import json
from pathlib import Path

from tools import training_tables


def test_memory_is_that_of_the_largest_process(tmp_path: Path) -> None:
    def run(processes: int, divided: bool, **more: float) -> dict:
        each = [
            {"imported_mib": 200.0, "peak_mib": 500.0 + rank, "photos_mib": 100.0 / processes}
            for rank in range(processes)
        ]
        return {"processes": processes, "divided": divided, "each": each, "losses": [2.0, 1.5], **more}

    result = {
        "settings": {"steps": 2, "batch": 16},
        "scores": {
            "runs": [run(1, True, largest_difference=0.0), run(2, True, largest_difference=3e-9)],
        },
    }
    (tmp_path / "scale").mkdir()
    (tmp_path / "scale" / "divided-training.json").write_text(json.dumps(result))
    lines = training_tables.divided(tmp_path).splitlines()
    assert lines[2] == "| 1 | all | 100 | 500 | 1.500000 |  |"
    assert lines[3] == "| 2 | divided | 50 | 501 | 1.500000 | 3.0e-09 |"
    assert lines[-1].startswith("Imports alone take 200 MiB; 2 steps of 16 pairs: results/")


def test_what_is_on_paper_has_a_row_for_each_way(tmp_path: Path) -> None:
    names = ("received_megabytes", "exchange_milliseconds", "latency_milliseconds", "mining_milliseconds")
    names += ("distance_matrix_gigabytes", "step_milliseconds", "minutes_for_one_pass", "dollars_for_one_pass")
    way = dict.fromkeys(names, 1.0) | {"patches_per_second": 2_500_000, "gpus": 8}
    (tmp_path / "speed").mkdir()
    result = {"scores": {"ways": [{**way, "split": True}, {**way, "split": False}]}}
    (tmp_path / "speed" / "scaling.json").write_text(json.dumps(result))
    lines = training_tables.on_paper(tmp_path).splitlines()
    assert lines[2] == "| 8 | split by anchors | 1.0 | 2.00 | 1.00 | 1.00 | 1.00 | 2.50 | 1.0 | 1.00 |"
    assert lines[3].startswith("| 8 | whole on each |")
