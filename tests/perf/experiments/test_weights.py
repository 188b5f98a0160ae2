"""The experiment that chooses weights runs at tiny size and says what it did."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from patchprint.networks import create, weights
from perf.experiments import choose_weights
from support import training_data


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    training_data.images().save(folder / "one")
    training_data.images().save(folder / "two")
    return folder


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
