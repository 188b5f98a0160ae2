"""The measurement of what ``eval ubc`` costs beyond the network runs, at tiny size."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_runs_and_writes_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "speed.json"
    options = ["--pairs", "60", "--network", "l2net", "--device", "cpu", "--repeats", "1", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["", *options])
    runpy.run_module("perf.speed.ubc_speed", run_name="__main__", alter_sys=True)
    result = json.loads(out.read_text())
    assert result["benchmark"] == "ubc-speed"
    assert result["scores"]["patches"] <= 120
    (whole,), (network,) = (result["scores"][name] for name in ("whole_seconds", "network_inside_seconds"))
    assert whole > network > 0
    assert result["scores"]["overhead_percent"] > 0
    assert result["run"]["machine"]["torch"]
