"""Two made sequences."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.scenes import write_sequence


@pytest.fixture(scope="session")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sequences")
    write_sequence(root / "one")
    write_sequence(root / "two", images=2, seed=9)
    return root
