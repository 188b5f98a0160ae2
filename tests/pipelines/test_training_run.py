"""What ``patchprint.train`` adds to a training run: the threshold of the ratio test and a report."""

import pytest
import torch

import patchprint
from patchprint import networks
from patchprint.matching import calibration
from patchprint.networks import weights
from patchprint.pipelines.training_run import _calibrate
from patchprint.training import Outcome, resolve


@pytest.mark.parametrize("extras", [True, False])
def test_calibration_and_report_can_be_left_out(extras, training_store, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "patchprint.pipelines.training_run.choose_ratio", lambda *_: calibration.RatioChoice(0.77, 1.0, 0.0)
    )
    config = resolve(
        "hardnet", data=(training_store,), steps=2, batch=8, network_options={"width": 4, "dim": 16}, device="cpu"
    )
    outcome = patchprint.train(config, out=tmp_path / "run", calibrate=extras, report=extras)
    assert outcome.ratio == weights.read_info(outcome.best).ratio == (0.77 if extras else None)
    assert (tmp_path / "run" / "report.html").is_file() == extras


@pytest.mark.parametrize(("last", "times"), [(0, 1), (1, 2)])
def test_weights_that_are_best_and_last_are_calibrated_once(last, times, training_store, tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("best.safetensors", "last.safetensors")]
    for path, seed in zip(paths, (0, last), strict=True):
        torch.manual_seed(seed)
        weights.save(networks.create("hardnet", width=4), path)
    asked = []

    def counted(path, images):
        asked.append(path)
        return calibration.RatioChoice((80 + len(asked)) / 100, 1.0, 0.0)

    monkeypatch.setattr("patchprint.pipelines.training_run.choose_ratio", counted)
    ratio = _calibrate(Outcome(1, 1, {}, "nothing", *paths, seconds=0.0), [training_store])
    assert len(asked) == times
    assert [weights.read_info(path).ratio for path in paths] == ([0.81, 0.81] if times == 1 else [0.81, 0.82])
    assert ratio == 0.81
