"""How much of the package a command may run through; ``results/walk.json`` has the numbers of the commits."""

from pathlib import Path

import pytest

from tools import walk

MOST = {"files": 25, "packages": 10, "depth": 15, "idle modules": 16}


@pytest.mark.slow
def test_matching_two_images_stays_a_short_way(tmp_path: Path) -> None:
    walk.render(tmp_path)
    found = walk.walk(walk.ROOT / "src", "match", tmp_path)
    assert found["exit code"] == 0 and "features/extract.py" in found["files run"]
    assert {name: found[name] for name in MOST if found[name] > MOST[name]} == {}
