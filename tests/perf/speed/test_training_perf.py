"""The measurement scripts of training run, at tiny size, and their arithmetic holds."""

import argparse
import json
import sys

import pytest

from perf.speed import recipe_memory, scaling_cost, training_speed
from support import training_data


def test_plain_and_own_step_are_timed():
    arguments = argparse.Namespace(pairs=8, width=4, steps=2, data=None)
    source = training_data.images()
    assert training_speed.time_plain(source, arguments, {"width": 4})["milliseconds"] > 0
    own = training_speed.time_ours(source, "sdgmnet", arguments, {"width": 4}, acceleration="eager")
    assert own["patches_per_second"] == pytest.approx(16 / own["milliseconds"] * 1e3, rel=0.01)


def test_arithmetic_limit_counts_the_products_of_the_trunk():
    limit = training_speed.against_limit(4.0, pairs=1024, width=32)
    # 39.0 million products for a patch: 0.3 + 9.4 + 4.7 + 9.4 + 4.7 + 9.4 + 1.0.
    assert limit["limit_milliseconds"] == pytest.approx(39.06e6 * 2 * 3 * 2048 / 989e12 * 1e3, rel=0.01)
    assert limit["minutes_for_200000_steps"] == pytest.approx(13.3)


def test_cost_on_paper_from_a_measured_step(tmp_path, monkeypatch):
    speed = {"scores": {"variants": {"sdgmnet": {"milliseconds": 4.0}}}, "settings": {"pairs": 1024}}
    (tmp_path / "speed.json").write_text(json.dumps(speed))
    command = ["scaling_cost.py", "--speed", str(tmp_path / "speed.json"), "--out", str(tmp_path / "cost.json")]
    monkeypatch.setattr(sys, "argv", command)
    scaling_cost.main()
    scores = json.loads((tmp_path / "cost.json").read_text())["scores"]
    ways = {(way["gpus"], way["split"]): way for way in scores["ways"]}
    assert ways[1, True]["step_milliseconds"] == 4.0
    split, whole = ways[64, True], ways[64, False]
    assert whole["distance_matrix_gigabytes"] == pytest.approx((2 * 65536) ** 2 * 4 / 1e9, abs=0.01)
    assert split["distance_matrix_gigabytes"] == pytest.approx(whole["distance_matrix_gigabytes"] / 64, abs=0.01)
    vectors, patches = 63 * 1024 * 2 * 128 * 4, 63 / 64 * 2048 * (32 * 32 * 4 + 56)
    assert whole["received_megabytes"] == pytest.approx((2 * vectors + patches) / 1e6, abs=0.1)
    assert split["received_megabytes"] == pytest.approx((4 * vectors + patches) / 1e6, abs=0.1)


@pytest.mark.slow
def test_memory_of_a_recipe(tmp_path):
    measure = recipe_memory.measure
    source = training_data.images().split("train")
    assert measure("tfeat", source, batch=8)["batch"] == 8
    assert recipe_memory.needs_sequences("doap-st-lm") and not recipe_memory.needs_sequences("doap")
    assert measure("doap-st-lm", recipe_memory.made_sequences(source.device), batch=64)["batch"] == 64
    assert "fewer than --batch" in measure("tfeat", source, batch=4096)["error"]
