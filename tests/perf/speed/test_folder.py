"""The stations of a folder of photos, and their rate."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from patchprint.speed import read_photos
from perf.speed import folder


def test_stations_and_rate_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_photos(None, 2, 0.05, 100).save(tmp_path / "photos.npz")
    out = tmp_path / "folder.json"
    line = ["folder", str(tmp_path / "photos.npz"), "--out", str(out), "--device", "cpu", "--model", "pixels"]
    monkeypatch.setattr(sys, "argv", [*line, "--counts", "2", "12"])
    folder.main()
    scores = json.loads(out.read_text())["scores"]
    assert set(scores["stations_ms"]) == {"read", "detect", "describe", "write"}
    assert all(value > 0 for value in scores["stations_ms"].values())
    assert scores["photos_per_second"] > 0
    assert scores["detected_per_second"] > 0
