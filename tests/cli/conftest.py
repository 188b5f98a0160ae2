"""A made sequence."""

from pathlib import Path

import pytest

from support.scenes import write_sequence


@pytest.fixture
def sequences(tmp_path: Path) -> str:
    write_sequence(tmp_path / "data" / "one", images=2)
    return str(tmp_path / "data")
