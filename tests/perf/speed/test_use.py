"""The measurements of use, at a tiny size: they must run before they are trusted with a machine."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

PERF = Path(__file__).resolve().parents[2] / "perf"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PERF / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_matching_is_timed() -> None:
    numbers = load("matching").measure(count=50, repeats=1, threads=1, seed=0)
    assert all(value > 0 for value in numbers["milliseconds"].values())
    assert len(numbers["milliseconds"]) == 5


def test_large_pictures_are_described_and_searched() -> None:
    large = load("large_image")
    assert large.describe(60, 300, 200, "tfeat") == {"keypoints": 60, "descriptors": [60, 128]}
    assert large.find(50, 300, 200, "dog")["keypoints"] == 50


def test_a_part_reports_its_own_memory() -> None:
    command = [sys.executable, str(PERF / "large_image.py"), "--part", "detect", "--count", "20", "--width", "200"]
    done = subprocess.run([*command, "--height", "150"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["peak_mib"] > 50
