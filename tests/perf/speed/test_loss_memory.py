"""The benchmark of the losses runs on a CPU at tiny size and writes what it promises."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_tiny_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "memory.json"
    size = ["--device", "cpu", "--points", "16", "--large", "64", "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", ["", "--out", str(out), *size, "--only", "doap"])
    runpy.run_module("perf.speed.loss_memory", run_name="__main__", alter_sys=True)
    result = json.loads(out.read_text())
    assert result["run"]["command"].startswith("python -m perf.speed.loss_memory --out ")
    rows = result["scores"]
    assert set(rows) == {"doap P=16 K=2 D=128", "doap P=32 K=2 D=128", "doap P=4 K=16 D=128"}
    assert all(
        row["host_synchronisations"] == 0 and row["peak_mib"] > 0 and row["eager_ms"] > 0 for row in rows.values()
    )
    # Twice the patches: memory may grow fourfold, with the square, and no more.
    assert rows["doap P=32 K=2 D=128"]["peak_mib"] < 4.5 * rows["doap P=16 K=2 D=128"]["peak_mib"]
