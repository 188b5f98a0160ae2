"""What could not be written is said before the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchprint.common.files import atomic_folder, refuse_file, refuse_overwrite


def test_a_file_that_could_not_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    refuse_file(tmp_path / "new" / "deep" / "a.npz", force=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.npz").touch()
    with pytest.raises(ValueError, match="--force"):
        refuse_file(tmp_path / "a.npz", force=False)
    refuse_file(tmp_path / "a.npz", force=True)
    with pytest.raises(ValueError, match=r"is a folder, .* name of a file in it"):
        refuse_file(tmp_path, force=True)
    with pytest.raises(ValueError, match=r"a\.npz is a file and no folder"):
        refuse_file(tmp_path / "a.npz" / "b" / "c.npz", force=True)


def test_no_permission_is_said_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(PermissionError, match="no permission"):
        refuse_file(tmp_path / "a.npz", force=False)


def test_existing_output_needs_force(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--force"):
        refuse_overwrite(tmp_path, force=False)
    with pytest.raises(ValueError, match="exists already"), atomic_folder(tmp_path, "a test"):
        pass
    refuse_overwrite(tmp_path, force=True)
