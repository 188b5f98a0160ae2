"""Weights that are put into the package say how they were made."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from patchprint.networks import TrainingRecord, create, weights
from perf.release import ship_weights


def test_shipped_weights_say_how_they_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = tmp_path / "best.safetensors"
    config = {"recipe": "sdgmnet", "network": "tfeat", "steps": 3000, "batch": 64, "views": 2, "patch_scale": 24.0}
    config |= {"augmentation": "photos", "average": 0.999, "seed": 7, "loss": "sdgm", "schedule": "linear"}
    config |= {"batcher": "neighbors", "batcher_options": {"run": 16}}
    network = create("tfeat", width=4)
    record = TrainingRecord("sdgmnet", "", 2000, config=config)
    network.info = dataclasses.replace(network.info, training=record)
    weights.save(network, trained)
    monkeypatch.setattr(weights, "WEIGHTS_FOLDER", tmp_path / "shipped")
    (tmp_path / "shipped").mkdir()
    monkeypatch.setattr(sys, "argv", ["x", "tfeat.tiny", "--weights", str(trained), "--patch-scale", "20"])
    ship_weights.main()
    info = weights.load_network("tfeat.tiny").info
    assert info.name == "tfeat.tiny"
    assert info.patch_scale == 20
    assert info.license == "Apache-2.0"
    assert info.training.step == 2000 and info.training.config == config
    assert info.training.summary() == (
        "tfeat-tiny-shipped: loss sdgm on network tfeat, 3,000 steps of 64 points x 2 views in runs of 16 neighbors "
        "at 24 sigma, learning rate linear, augmentation photos, weights averaged (0.999), seed 7"
    )
