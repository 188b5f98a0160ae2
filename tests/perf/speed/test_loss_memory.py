"""The benchmark of the losses runs on a CPU at tiny size and writes what it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_tiny_run(tmp_path: Path) -> None:
    out = tmp_path / "memory.json"
    command = [
        sys.executable,
        "-m",
        "perf.speed.loss_memory",
        "--out",
        out,
        "--device",
        "cpu",
        "--points",
        "16",
        "--large",
        "64",
        "--repeats",
        "1",
    ]
    subprocess.run([*command, "--only", "doap"], check=True, stderr=subprocess.DEVNULL, cwd=ROOT)
    result = json.loads(out.read_text())
    assert result["run"]["command"].startswith("python -m perf.speed.loss_memory --out ")
    rows = result["scores"]
    assert set(rows) == {"doap P=16 K=2 D=128", "doap P=32 K=2 D=128", "doap P=4 K=16 D=128"}
    assert all(
        row["host_synchronisations"] == 0 and row["peak_mib"] > 0 and row["eager_ms"] > 0 for row in rows.values()
    )
    # Twice the patches: memory may grow fourfold, with the square, and no more.
    assert rows["doap P=32 K=2 D=128"]["peak_mib"] < 4.5 * rows["doap P=16 K=2 D=128"]["peak_mib"]
