"""A student goes on, on a CPU, with what its teacher said once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from patchprint import networks
from patchprint.networks import weights
from patchprint.training.step import TrainStep
from perf.experiments import teach_on_cpu

pytest.importorskip("openvino", reason="the teacher is computed by OpenVINO")


def test_a_student_learns_from_what_was_said_once(
    training_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    options = {"width": 4, "fovea": 3, "size": 48}
    weights.save(networks.create("strided", **options), tmp_path / "start.safetensors")
    run = {"recipe": "distill", "data": [training_store], "batch": 16, "network_options": options}
    (tmp_path / "run.json").write_text(json.dumps(run))
    teach = (
        f"x {tmp_path}/run.json --init {tmp_path}/start.safetensors --teacher hardnet.small --cache {tmp_path}/heard"
    )
    teach += " --batches 2 --steps 20 --lr 0.01"

    def losses(out: str) -> list[float]:
        monkeypatch.setattr(sys, "argv", f"{teach} --out {tmp_path / out}".split())
        teach_on_cpu.main()
        return [float(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]

    first = losses("one.safetensors")
    assert first[-1] < 0.8 * first[0]
    assert np.load(tmp_path / "heard" / "patches.npy").shape == (2, 32, 48, 48)
    monkeypatch.setattr(TrainStep, "cut_patches", None)  # nothing is cut again
    assert losses("two.safetensors") == first
    info = weights.read_info(tmp_path / "two.safetensors")
    assert (info.training.config["steps"], info.training.config["teacher"]) == (20, ["hardnet.small"])
    assert info.training.step == 20
