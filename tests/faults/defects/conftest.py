"""The tree that is asked, and what commands need: photos and a store of their points."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import patchprint
from faults.defects.material import build_store, write_photos
from faults.defects.tree import CHOICE, Tree


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    source = os.environ.get(CHOICE) or Path(patchprint.__file__).resolve().parents[1]
    chosen = Tree(Path(source), tmp_path_factory.mktemp("cache"))
    yield chosen
    chosen.close()


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with three small photos in ``photos``, in which commands are run."""
    write_photos(tmp_path / "photos")
    return tmp_path


@pytest.fixture(scope="session")
def store(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tree, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def other_store(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tree, tmp_path_factory.mktemp("other"), first=7)
