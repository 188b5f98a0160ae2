"""The experiments that compare methods and choose weights run at tiny size and say what they did."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from patchprint.networks import create, weights
from perf.experiments import choose_weights, comparison
from support import training_data


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    training_data.images().save(folder / "one")
    training_data.images().save(folder / "two")
    return folder


def test_a_run_is_tested_on_the_other_set_and_not_done_twice(stores: Path, tmp_path: Path) -> None:
    sets = {"one": str(stores / "one"), "two": str(stores / "two")}
    run = {"recipe": "sdgmnet", "train": "one", "batch": 8, "seed": 0, "steps": 2, "patch_scale": 12.0, "width": 4}
    result = comparison.one_run(run, sets, pairs=40, work=tmp_path)
    assert list(result["fpr95"]) == list(result["fpr95_of_signs"]) == ["two"]
    assert 0 <= result["fpr95"]["two"] <= 100
    assert result["statistics"][-1]["step"] == 2
    weights = tmp_path / "sdgmnet-one-8-2-0" / "best.safetensors"
    before = weights.stat().st_mtime_ns
    assert comparison.one_run(run, sets, pairs=40, work=tmp_path) == result
    (tmp_path / "sdgmnet-one-8-2-0.json").unlink()
    assert comparison.one_run(run, sets, pairs=40, work=tmp_path) == result, "trained before, so only tested"
    assert weights.stat().st_mtime_ns == before
    longer = comparison.one_run({**run, "width": 8}, sets, pairs=40, work=tmp_path)
    assert longer["width"] == 8, "other settings are another run"


def test_weights_are_judged_by_scale(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose_weights, "KEYPOINTS", 100)
    torch.manual_seed(0)
    for name, kind in (("float", "float"), ("bits", "binary")):
        weights.save(create("tfeat", width=4, kind=kind), tmp_path / f"{name}.safetensors")
    models = [str(tmp_path / f"{name}.safetensors") for name in ("float", "bits")]
    store, out = str(stores / "one"), tmp_path / "choice.json"
    command = ["choose_weights", "--models", *models, "--tracks", store, "--images", store, "--scales", "12", "24"]
    monkeypatch.setattr(sys, "argv", [*command, "--num-images", "1", "--points", "50", "--out", str(out)])
    choose_weights.main()
    scores = json.loads(out.read_text())["scores"]
    assert list(scores) == models
    for model in models:
        assert list(scores[model]) == ["12", "24"]
        for score in scores[model].values():
            assert score["mean"] == pytest.approx((score["depth"]["one"] + score["flat"]) / 2)
            assert 0 < score["depth"]["one"] <= 1
