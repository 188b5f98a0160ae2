"""COLMAP in a process of its own: what it cannot do is an error of ours, and it does not outlive us."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchprint.interop import colmap_sift, colmap_subprocess
from support import children
from support.full_disk import files_limited_to
from support.known_images import write_textures


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_textures(tmp_path / "photos", 3, 200, 240)


def keypoints_of(database: Path) -> int:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT count(*) FROM keypoints WHERE rows > 0").fetchone()[0]


def test_a_full_disk_is_an_error_that_names_the_database_and_the_next_run_goes_on(photos: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    with files_limited_to(230_000), pytest.raises(OSError, match=r"database\.db could not be written: .*SQLite error"):
        colmap_sift.sift_reconstruction(photos, work, max_keypoints=300)
    with pytest.raises(ValueError, match="overlap too little"):  # which is found after all of the photos were described
        colmap_sift.sift_reconstruction(photos, work, max_keypoints=300)
    assert keypoints_of(work / "database.db") == 3


def test_what_colmap_says_is_the_error(tmp_path: Path) -> None:
    (tmp_path / "database.db").write_text("no database, but long enough to be taken for a damaged one " * 20)
    with pytest.raises(RuntimeError, match=r"SQLite|database factory"):
        colmap_subprocess.run("match", tmp_path / "database.db", function="match_exhaustive", pairing={}, seed=0)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are looked up in /proc")
def test_it_ends_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    """It would go on writing to the database while the next run does. Here it waits for a task that never comes."""
    reading, writing = os.pipe()

    def is_at_work() -> bool:
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.fsencode(colmap_subprocess.__file__) in (place / "cmdline").read_bytes().split(b"\0"):
                    return Path(os.readlink(place / "cwd")) == tmp_path
        return False

    def work() -> None:
        os.chdir(tmp_path)
        subprocess.run([sys.executable, "-P", colmap_subprocess.__file__], stdin=reading, check=False)

    assert children.kill_after(3, work).how == "killed"
    until = time.monotonic() + 20
    while is_at_work() and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_at_work()
    os.close(reading)
    os.close(writing)
