"""The folder of a run."""

import pytest

from patchprint.training import resolve, train
from support import training_data
from support.training_data import images, short_run


def test_a_used_folder_is_not_overwritten(tmp_path):
    assert train(resolve("tfeat", **{**training_data.SHORT, "steps": 1}), images(), tmp_path / "x").steps == 1
    with pytest.raises(ValueError, match="holds files already"):
        short_run("sdgmnet", tmp_path / "x")
    again = train(resolve("tfeat", **{**training_data.SHORT, "steps": 2}), images(), tmp_path / "x", force=True)
    assert again.steps == 2


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        short_run("hardnet", tmp_path / "file" / "run")
