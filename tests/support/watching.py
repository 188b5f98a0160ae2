"""Memory and open files of this process while something runs for long."""

import os
import statistics
import threading
from pathlib import Path
from typing import Self

STATUS = Path("/proc/self/status")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


class Watch:
    """Looks at the memory every ``interval`` seconds between entering and leaving; Linux only."""

    def __init__(self, interval: float = 0.05) -> None:
        self.interval = interval
        self.mib: list[float] = []
        self.files_before = self.files_after = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self.files_before = open_files()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.files_after = open_files()

    @property
    def growth_mib(self) -> float:
        """From the second fifth of the time to the last; the first is spent on starting."""
        fifth = max(1, len(self.mib) // 5)
        return round(statistics.median(self.mib[-fifth:]) - statistics.median(self.mib[fifth : 2 * fifth]), 2)

    @property
    def peak_mib(self) -> float:
        return round(max(self.mib), 1)

    def _look(self) -> None:
        while True:
            lines = STATUS.read_text().splitlines()
            self.mib.append(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024)
            if self._done.wait(self.interval):
                return
