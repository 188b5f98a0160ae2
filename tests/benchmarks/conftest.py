"""Two made sequences, and patches in the form of HPatches."""

from pathlib import Path

import pytest

from support.benchmark_data import write_store
from support.scenes import write_sequence


@pytest.fixture(scope="session")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sequences")
    write_sequence(root / "one")
    write_sequence(root / "two", images=2, seed=9)
    return root


@pytest.fixture(scope="session")
def hpatches_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hpatches") / "store"
    write_store(folder, scenes=3, points=24, views=16, noise=40.0)
    return folder
