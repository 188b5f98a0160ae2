"""What lies in the folder of a server, and what it offers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from patchprint.common.errors import UserError
from patchprint.networks.weights import WEIGHTS_FOLDER
from patchprint.web.choices import offered
from patchprint.web.uploads import bytes_below, remove_old


def test_old_uploads_are_removed_and_examples_kept(tmp_path: Path) -> None:
    kept = tmp_path / "examples"
    names = ("examples/a.jpg", "new/a.jpg", "old/a.jpg", "old/cut-off")
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"photo")
        if not name.startswith("new"):
            os.utime(path, (time.time() - 100,) * 2)
    assert bytes_below(tmp_path) == 20
    remove_old(tmp_path, kept, seconds=50)
    assert [name for name in names if (tmp_path / name).exists()] == ["examples/a.jpg", "new/a.jpg"]


def test_weights_of_the_user_come_first(tmp_path: Path) -> None:
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes((WEIGHTS_FOLDER / "hardnet.small.safetensors").read_bytes())
    known, ratios = offered([mine])
    assert list(known)[:2] == ["mine", "sdgmnet"] and list(known) == list(ratios)
    assert known["mine"] == str(mine) and ratios["mine"] == ratios["hardnet.small"] and ratios["pixels"] is None
    with pytest.raises(UserError, match="two weight files are called mine"):
        offered([mine, mine])
    with pytest.raises(UserError, match="lost"):
        offered([tmp_path / "lost.safetensors"])
