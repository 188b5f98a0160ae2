"""Load in small; ``make load`` does it with 10,000 photos and half an hour of training."""

import mmap
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nightly import load
from support.watching import Watch

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory is read from /proc")


def test_a_leak_is_seen(tmp_path: Path) -> None:
    kept: list[Any] = []
    with Watch(interval=0.01) as watch:
        for number in range(40):
            kept.append(mmap.mmap(-1, 2**20))  # fresh from the system, not what other tests have given back
            kept[-1].write(b"x" * 2**20)
            kept.append(open(tmp_path / str(number), "w"))  # noqa: SIM115
            time.sleep(0.02)
    assert watch.growth_mib > 10 and watch.files_after - watch.files_before == 40


def test_photos_and_training_leave_no_memory_and_no_files_behind(tmp_path: Path) -> None:
    described = load.describe_many(80, tmp_path, "pixels")
    trained = load.train_for(3, tmp_path)
    assert load.problems(described, trained) == []
    assert described["described"] == 80 and trained["steps"] > 0
