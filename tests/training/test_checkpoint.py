"""Checkpoints on disk: whose they are, damage, and a full disk."""

import dataclasses

import pytest
import torch
from safetensors.torch import load_file, save_file

from patchprint.common.errors import UserError
from patchprint.training import assembly, checkpoint, resolve
from support import training_data
from support.full_disk import files_limited_to
from support.training_data import short_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    short_run("hardnet", folder, steps=4, checkpoint_every=2)
    return folder / "checkpoints" / "step-000000004.safetensors"


def read(path, recipe="hardnet", **changes):
    settings = {**training_data.SHORT, "steps": 4, "network_options": training_data.narrow(recipe), **changes}
    config = resolve(recipe, **settings)
    state = assembly.create(config, torch.device("cpu"))
    state.data = training_data.images().split("train").fingerprint()
    checkpoint.read(path, state, config)


def test_checkpoint_with_other_settings(finished):
    with pytest.raises(ValueError, match=r"was made with lr 10\.0, not 5\.0"):
        read(finished, lr=5.0)
    read(finished, log_every=7)


def test_images_that_were_divided_among_more_processes(tmp_path):
    config = resolve("hardnet", **training_data.SHORT, network_options=training_data.narrow("hardnet"))
    state = assembly.create(config, torch.device("cpu"))
    state.divided_among = 4
    path = checkpoint.write(tmp_path, state, config)
    checkpoint.read(path, state, config)
    state.divided_among = 2
    with pytest.raises(UserError, match="images divided among 4 processes, not 2; resume it with 4"):
        checkpoint.read(path, state, config)


def test_checkpoint_of_another_version(finished, tmp_path):
    save_file(
        load_file(finished), tmp_path / "old.safetensors", {"format": "patchprint-checkpoint-0", "patchprint": "0.0.9"}
    )
    with pytest.raises(ValueError, match=r"no checkpoint that patchprint .* reads \(it is from 0\.0\.9\)"):
        read(tmp_path / "old.safetensors")


@pytest.mark.parametrize("keep", [0, 5, 1000, -1])
def test_truncated_checkpoint(finished, tmp_path, keep):
    (tmp_path / "cut.safetensors").write_bytes(finished.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"cut\.safetensors is not a checkpoint, or damaged"):
        read(tmp_path / "cut.safetensors")


def test_full_disk_leaves_the_previous_checkpoint_and_says_so(tmp_path):
    config = resolve("hardnet", **{**training_data.SHORT, "network_options": training_data.narrow("hardnet")})
    state = assembly.create(config, torch.device("cpu"))
    good = checkpoint.write(tmp_path, dataclasses.replace(state, step=10), config)
    before = good.read_bytes()
    message = r"step-000000020\.safetensors could not be written: .* the checkpoint of step 10 is intact"
    with files_limited_to(4096), pytest.raises(OSError, match=message):
        checkpoint.write(tmp_path, dataclasses.replace(state, step=20), config)
    assert checkpoint.latest(tmp_path) == good
    assert good.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [good.name]


def test_wrong_resume_leaves_the_run_as_it_was(finished):
    folder = finished.parents[1]
    before = (folder / "config.json").read_bytes()
    with pytest.raises(ValueError, match="belongs to recipe hardnet"):
        short_run("sosnet", folder, resume=True, steps=4)
    assert (folder / "config.json").read_bytes() == before
