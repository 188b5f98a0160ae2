"""``patchprint models``: tables for people, everything in JSON."""

from __future__ import annotations

import json

import pytest
import torch

from patchprint import cli
from patchprint.cli import models
from patchprint.networks import weights


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
