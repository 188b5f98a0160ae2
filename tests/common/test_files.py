"""Files and folders are whole or not there, have one writer, and are refused before the work."""

import stat
import threading
from pathlib import Path

import pytest

from patchprint.common import files
from patchprint.common.files import (
    atomic_file,
    check_output_file,
    claim_folder,
    exclusive_writer,
    write_json,
)


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
    make, made = files._new_file, []

    def make_and_lose_the_first(path: Path) -> Path:
        made.append(make(path))
        if len(made) == 1:
            made[0].unlink()
        return made[-1]

    monkeypatch.setattr(files, "_new_file", make_and_lose_the_first)
    write_json(tmp_path / "a.json", 1)
    assert len(made) == 2 and [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_only_leftovers_that_nobody_holds_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".patchprint.abcdefgh.b.json").touch()
    (tmp_path / ".patchprint.abcdefgh.folder").mkdir()
    (tmp_path / ".patchprint.notes").touch()  # not a name that we give
    (tmp_path / ".b.json").touch()
    with atomic_file(tmp_path / "a.json") as held:
        files._cleaned.clear()
        write_json(tmp_path / "c.json", 1)
        assert held.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.json", ".patchprint.notes", "a.json", "c.json"]


def test_a_file_that_could_not_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    check_output_file(tmp_path / "new" / "deep" / "a.npz", force=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.npz").touch()
    with pytest.raises(ValueError, match="--force"):
        check_output_file(tmp_path / "a.npz", force=False)
    check_output_file(tmp_path / "a.npz", force=True)
    with pytest.raises(ValueError, match=r"is a folder, .* name of a file in it"):
        check_output_file(tmp_path, force=True)
    with pytest.raises(ValueError, match=r"a\.npz is a file and no folder"):
        check_output_file(tmp_path / "a.npz" / "b" / "c.npz", force=True)


def test_no_permission_is_said_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(PermissionError, match="no permission"):
        check_output_file(tmp_path / "a.npz", force=False)


def test_a_second_writer_waits_or_is_refused(tmp_path: Path) -> None:
    target, order = tmp_path / "store", []

    def second() -> None:
        with exclusive_writer(target, wait=True):
            order.append("second")

    with exclusive_writer(target):
        with pytest.raises(ValueError, match="another process is writing"), exclusive_writer(target):
            pass
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("force", [False, True])
def test_a_file_is_no_folder_to_write_to(tmp_path: Path, force: bool) -> None:
    (tmp_path / "features").write_text("mine")
    with pytest.raises(ValueError, match="writes a folder"):
        claim_folder(tmp_path / "features", "a test", ["x"], force=force)
    assert (tmp_path / "features").read_text() == "mine"
