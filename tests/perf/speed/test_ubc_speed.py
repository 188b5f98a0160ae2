"""The measurement of what ``eval ubc`` costs beyond the network runs, at tiny size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_runs_and_writes_a_result(tmp_path: Path) -> None:
    out = tmp_path / "speed.json"
    options = ["--pairs", "60", "--network", "l2net", "--device", "cpu", "--repeats", "1", "--out", str(out)]
    command = [sys.executable, "-m", "perf.speed.ubc_speed", *options]
    subprocess.run(command, check=True, capture_output=True, timeout=120, cwd=ROOT)
    result = json.loads(out.read_text())
    assert result["benchmark"] == "ubc-speed"
    assert result["scores"]["patches"] <= 120
    (whole,), (network,) = (result["scores"][name] for name in ("whole_seconds", "network_inside_seconds"))
    assert whole > network > 0
    assert result["scores"]["overhead_percent"] > 0
    assert result["run"]["machine"]["torch"]
