"""Small images, a store of their points, and the processes in which commands are run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_server import CommandServer
from support.known_images import write_textures


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    chosen = CommandServer(tmp_path_factory.mktemp("cache"))
    yield chosen
    chosen.close()


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with three small images in ``photos``, in which commands are run."""
    write_textures(tmp_path / "photos", 3, 120, 160)
    return tmp_path


@pytest.fixture(scope="session")
def store(server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(server, tmp_path_factory.mktemp("store"), views=3)


@pytest.fixture(scope="session")
def other_store(server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(server, tmp_path_factory.mktemp("other"), views=4)


def build_store(server: CommandServer, folder: Path, views: int) -> Path:
    write_textures(folder / "photos", 3, 120, 160)
    command = f"data build homographies photos store --views {views} --max-keypoints 60"
    ended = server.command(command, folder)
    assert ended.code == 0, ended.said
    return folder / "store"
