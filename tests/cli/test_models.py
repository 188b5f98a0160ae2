"""``patchprint models``: tables for people, everything in JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from patchprint import cli
from patchprint.cli import models
from patchprint.networks import TrainingRecord, weights
from support.network_patches import trained_looking


def test_weights_are_listed_with_licence_data_and_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(weights, "WEIGHTS_FOLDER", tmp_path)
    network = trained_looking("sdgmnet", width=4)
    facts = {
        "license": "Apache-2.0",
        "training": TrainingRecord(data="bundled photographs"),
        "provisional": True,
        "patch_scale": 16.0,
    }
    info = weights.save(network, tmp_path / "sdgmnet.safetensors", dataclasses.replace(network.info, **facts))
    assert cli.main(["models", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["weights"]
    assert entry == dataclasses.asdict(info)
    assert cli.main(["models"]) == 0
    text = capsys.readouterr().out
    for word in ("sdgmnet (provisional)", "Apache-2.0", "bundled photographs", info.sha256[:12], "16 sigma, 32 px"):
        assert word in text
    (row,) = (line for line in text.splitlines() if line.startswith("sdgmnet (provisional)"))
    assert row.split()[9:11] == ["-", "-"], "what was measured of other weights with this name is not theirs"


def test_the_shipped_weights_are_shown_with_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    measured = json.loads(models.MEASURED.read_text())["models"]
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    for name in weights.weight_names():
        (row,) = (line for line in text.splitlines() if line.startswith(f"{name} ") and "Apache" in line)
        assert f" {measured[name]['oxford_map']:.3f} " in row
        speed = measured[name]["patches_per_second"].get(kind)
        assert speed is None or f" {speed:,} " in row
    assert "hessian-affine" in text and "sdgmnet.fast and sdgmnet.tiny are for CPUs" in text
