"""The measurements of use, at a tiny size: they must run before they are trusted with a machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perf.speed import large_image

ROOT = Path(__file__).resolve().parents[3]


def test_large_pictures_are_described_and_searched() -> None:
    assert large_image.describe(60, 300, 200, "tfeat") == {"keypoints": 60, "descriptors": [60, 128]}
    assert large_image.find(50, 300, 200, "dog")["keypoints"] == 50


@pytest.mark.slow
def test_a_part_reports_its_own_memory() -> None:
    command = [sys.executable, "-m", "perf.speed.large_image", "--part", "detect", "--count", "20", "--width", "200"]
    done = subprocess.run([*command, "--height", "150"], capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(done.stdout)["peak_mib"] > 50
