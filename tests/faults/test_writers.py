"""Every writer meets every fault, a few times; ``make faults`` does it at every size and many moments."""

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import injection
from faults.injection import Bench, Injected
from faults.writers import NEW, Writer, all_writers

NAMES = ("json", "features", "shard", "page", "weights", "hloc", "colmap", "opencv-yml", "store", "hub", "ply")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every user of the machine may enter, as pytest's are not."""
    folder = Path(tempfile.mkdtemp(prefix="patchprint-faults-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def writers(place: Path) -> dict[str, Writer]:
    return all_writers(place / "work")


@pytest.fixture(scope="module", params=NAMES)
def bench(request: pytest.FixtureRequest, writers: dict[str, Writer], place: Path) -> Bench:
    return Bench(writers[request.param], place / request.param)


def assert_nothing_lost(found: Iterator[Injected], at_least: int) -> None:
    told = injection.tally(found)
    assert told["problems"] == []
    assert told["injected"] >= at_least, "the fault did not strike"


def test_all_writers_are_asked(writers: dict[str, Writer]) -> None:
    assert tuple(writers) == NAMES


def test_h3_m6_a_full_disk_is_noticed_and_the_file_named(bench: Bench) -> None:
    """HDF5 once ended the process at some sizes (SIGSEGV); OpenCV's writer says nothing and left cut files."""
    bench.start_with(NEW)
    size = bench.size()
    sizes = [0, *(int(part * size) for part in (0.5, 0.9)), size - 1]
    assert_nothing_lost(injection.full_disk(bench, sizes), at_least=4)


def test_h2_l10_a_kill_loses_nothing_and_the_next_writer_tidies_up(bench: Bench) -> None:
    step = 5 if bench.writer.name == "store" else 3
    assert_nothing_lost(injection.kills_at_moments(bench, step), at_least=2)


def test_a_folder_that_may_only_be_read_is_left_alone(bench: Bench) -> None:
    assert_nothing_lost(injection.read_only(bench, injection.NoRights), at_least=2)


def test_three_writers_at_once_leave_the_work_of_one(bench: Bench) -> None:
    assert_nothing_lost(injection.several_writers(bench, 2, random.Random(0)), at_least=2)
