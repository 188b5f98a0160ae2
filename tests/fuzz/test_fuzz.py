"""Damaged files are read, or refused with one sentence that names them. ``make fuzz`` tries many more (`nightly.fuzz`)."""

import faulthandler
from pathlib import Path

import pytest

from fuzz.cases import REFUSED, TRACEBACK, Bench
from fuzz.readers import READERS

CASES = 100


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused_by_name(name: str, tmp_path: Path) -> None:
    faulthandler.dump_traceback_later(120, exit=True)  # a reader that hangs in foreign code cannot be stopped otherwise
    try:
        bench = Bench(name, tmp_path / "sample")
        outcomes = list(bench.cases(range(round(CASES * READERS[name].share))))
    finally:
        faulthandler.cancel_dump_traceback_later()
    bad = [f"seed {seed}, {why}" for seed, outcome, why in outcomes if outcome == TRACEBACK]
    assert not bad, f"{len(bad)} of {len(outcomes)}, the first of them: {bad[0]}"
    # A prediction that cannot be read is made again.
    assert name == "predictions" or any(outcome == REFUSED for _, outcome, _ in outcomes)
