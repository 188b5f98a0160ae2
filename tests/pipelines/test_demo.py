"""The demo from end to end, with a few steps of training: it must leave a page, numbers and weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("cv2")
pytest.importorskip("skimage.data")

from patchprint.networks import weights
from patchprint.pipelines import demo


@pytest.mark.slow
def test_demo_leaves_report_result_and_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "OTHERS", {"rootsift": "rootsift", "pixels": "pixels"})
    monkeypatch.setattr(demo.bundled, "TRAINING", ("coins", "moon", "page"))
    monkeypatch.setattr(demo.bundled, "HELD_OUT", ("camera",))
    assert demo.main(tmp_path, steps=3) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    scores = result["scores"]
    assert scores["rootsift"]["fpr95"] < scores["pixels"]["fpr95"] < 0.5
    assert scores["rootsift"]["stereo"]["correct"] > 500
    assert result["model"]["sha256"] == weights.load_network(tmp_path / "training" / "last.safetensors").info.sha256
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64" in page and "rootsift" in page
    assert demo.LEARNED in capsys.readouterr().out
    hard = scores["hard_pair"]
    assert 0 < hard["rootsift"]["right"] < hard["rootsift"]["matches"], "hard, but not hopeless"
    assert f"{demo.LEARNED}: {hard[demo.LEARNED]['right']} of {hard[demo.LEARNED]['matches']} matches right" in page
    assert not (tmp_path / "hard-pixels.png").exists()
