"""What a run leaves behind comes back under its own name."""

import tarfile
from pathlib import Path

import pytest

second_edition = pytest.importorskip("perf.release.second_edition")


def test_runs_whose_names_begin_alike_do_not_replace_each_other(tmp_path: Path) -> None:
    for name in ("patchprint", "patchprint.tiny"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "log.txt").write_text(name)
        second_edition.hand_back(folder, tmp_path / "out" / name)
    for name in ("patchprint", "patchprint.tiny"):
        with tarfile.open(tmp_path / "out" / f"{name}.tar.xz") as stream:
            stored = stream.extractfile("log.txt")
            assert stored is not None and stored.read().decode() == name
