"""Models and engines do the same work in turns. No test asks for seconds."""

import pytest
import torch

from patchprint.pipelines import bench
from patchprint.pipelines.bench import BenchSettings, stage_table, take_turns

CPU = torch.device("cpu")
MODELS = ("patchprint.tiny", "patchprint.tiny")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SHORTEST", 0.0)
    monkeypatch.setattr(bench, "PAUSE", 0.0)


def test_contenders_take_turns() -> None:
    calls: list[str] = []
    times = take_turns("letters", {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3, CPU)
    assert "".join(calls)[-6:] == "ababab"
    assert {name: len(taken) for name, taken in times.items()} == {"a": 3, "b": 3}


def test_every_stage_times_every_model() -> None:
    small = BenchSettings(
        megapixels=0.05, max_keypoints=40, models=MODELS, engines=("auto", "float32"), rounds=1, device="cpu"
    )
    result = bench.bench(small)
    assert list(result.scores) == list(bench.STAGES)
    both = {f"{bench.contender_name(model, 'auto')}{engine}" for model in MODELS for engine in ("", ", float32")}
    for name, stage in result.scores.items():
        assert set(stage["contenders"]) == (both if name == "describe" else {each for each in both if "," not in each})
        table = stage_table(stage)
        times = [stage["contenders"][row[0]]["best_ms"] for row in table.rows]
        assert times == sorted(times) and all(each > 0 for each in times), "the fastest comes first"
        assert all(len(row) == len(table.header) for row in table.rows)
