"""The folder of a run."""

import pytest

from patchprint.training import resolve, train
from patchprint.training.run_folder import RunFolder, read_lines
from support import training_data
from support.training_data import images, short_run


def test_a_used_folder_is_not_overwritten(tmp_path):
    assert train(resolve("tfeat", **{**training_data.SHORT, "steps": 1}), images(), out=tmp_path / "x").steps == 1
    with pytest.raises(ValueError, match="holds files already"):
        short_run("sdgmnet", tmp_path / "x")
    again = train(resolve("tfeat", **{**training_data.SHORT, "steps": 2}), images(), out=tmp_path / "x", force=True)
    assert again.steps == 2


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        short_run("hardnet", tmp_path / "file" / "run")


def test_what_a_resumed_run_will_do_again_is_forgotten(tmp_path):
    folder = RunFolder(tmp_path / "run", resolve("hardnet", tensorboard=False), resume=False)
    for step in (1, 2, 3):
        folder.log(step, {"loss/total": 1.0})
        folder.append("angles.jsonl", {"step": step, "positive": [1]})
    folder.forget_after(2)
    for file in (folder.path / "metrics.jsonl", folder.path / "angles.jsonl"):
        assert [line["step"] for line in read_lines(file, "a run")] == [1, 2]


def test_lines_that_are_no_objects_are_left_out(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"step": 1}\n[1]\nnull\n{"cut": \n' + "[" * 100_000)
    assert read_lines(tmp_path / "a.jsonl", "a file") == [{"step": 1}]
