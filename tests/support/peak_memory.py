"""How much memory something takes at its peak."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROCESS = Path("/proc/self")


@contextmanager
def memory_grows_by_less_than(mib: float) -> Iterator[None]:
    """Fail where the memory of this process exceeds what it had before by more.

    The peak is set back first: that of a whole process would hide any growth after a larger test.
    """
    if not PROCESS.is_dir():
        pytest.skip("only Linux lets a process set its peak of memory back")
    (PROCESS / "clear_refs").write_text("5")
    before = _read("VmRSS")
    yield
    grown = (_read("VmHWM") - before) / 1024
    assert grown < mib, f"memory grew by {grown:.0f} MiB"


def _read(field: str) -> int:
    """Kilobytes."""
    lines = (PROCESS / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
