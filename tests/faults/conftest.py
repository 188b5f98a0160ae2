"""Commands in processes that may crash or be killed, and images for them."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from patchprint import cli
from support.children import Action, Ending
from support.known_images import write_textures

Typed = Callable[..., tuple[str, str]]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with three small images in ``photos``."""
    monkeypatch.chdir(tmp_path)
    write_textures(tmp_path / "photos", 3, 120, 160)
    return tmp_path


@pytest.fixture
def typed(capfd: pytest.CaptureFixture[str]) -> Typed:
    """``typed(words)`` runs a command: its exit code, and what it printed.

    ``typed(words, start)`` lets ``start``, as `children.run`, do it in a child: its exit code, or how it ended.
    """

    def run(words: str, start: Callable[[Action], Ending] | None = None) -> tuple[str, str]:
        def command() -> int:
            return cli.main(shlex.split(words))

        capfd.readouterr()
        ended = Ending("done", str(command())) if start is None else start(command)
        printed = capfd.readouterr()
        return (ended.said or "0") if ended.how == "done" else ended.how, printed.out + printed.err

    return run


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
