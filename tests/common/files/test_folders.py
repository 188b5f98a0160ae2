"""Folders are replaced whole, and only those that patchprint made."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchprint.common.files import atomic_folder, claim_folder


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "store"
    with atomic_folder(target, "a test") as temporary:
        (temporary / "x").write_text("1")
    with pytest.raises(RuntimeError), atomic_folder(target, "a test", force=True) as temporary:
        (temporary / "x").write_text("2")
        raise RuntimeError
    assert (target / "x").read_text() == "1"
    with atomic_folder(target, "a test", force=True) as temporary:
        (temporary / "x").write_text("3")
    assert (target / "x").read_text() == "3"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("force", [False, True])
def test_a_file_is_no_folder_to_write_to(tmp_path: Path, force: bool) -> None:
    (tmp_path / "features").write_text("mine")
    with pytest.raises(ValueError, match="writes a folder"):
        claim_folder(tmp_path / "features", "a test", ["x"], force=force)
    assert (tmp_path / "features").read_text() == "mine"
