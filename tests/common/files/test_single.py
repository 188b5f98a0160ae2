"""A file has its name only when it is whole, and leftovers of killed writers go."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from patchprint.common.files import _single, atomic_file, write_json


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    write_json(target, {"old": 1})
    with pytest.raises(OSError, match="disk full"), atomic_file(target) as temporary:
        temporary.write_text("half")
        raise OSError("disk full")
    assert '"old"' in target.read_text()
    assert list(tmp_path.iterdir()) == [target]


def test_a_new_file_is_readable_by_others_as_the_umask_says(tmp_path: Path) -> None:
    plain, written = tmp_path / "plain", tmp_path / "written"
    plain.write_text("x")
    write_json(written, 1)
    assert stat.S_IMODE(plain.stat().st_mode) == stat.S_IMODE(written.stat().st_mode)


def test_a_writer_whose_temporary_file_was_tidied_away_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may look for leftovers between the making of a temporary file and its locking."""
    make, made = _single._new_file, []

    def make_and_lose_the_first(path: Path) -> Path:
        made.append(make(path))
        if len(made) == 1:
            made[0].unlink()
        return made[-1]

    monkeypatch.setattr(_single, "_new_file", make_and_lose_the_first)
    write_json(tmp_path / "a.json", 1)
    assert len(made) == 2 and [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_only_leftovers_that_nobody_holds_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".patchprint.abcdefgh.b.json").touch()
    (tmp_path / ".patchprint.abcdefgh.folder").mkdir()
    (tmp_path / ".patchprint.notes").touch()  # not a name that we give
    (tmp_path / ".b.json").touch()
    with atomic_file(tmp_path / "a.json") as held:
        _single._tidied.clear()
        write_json(tmp_path / "c.json", 1)
        assert held.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.json", ".patchprint.notes", "a.json", "c.json"]
