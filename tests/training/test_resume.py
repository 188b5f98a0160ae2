"""A run goes on from its last checkpoint as if nothing had happened, whatever stopped it."""

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import training_data
from patchprint.training import assembly, checkpoint, resolve
from training_data import losses_of, short_run

TESTS = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def assert_same_run(one, other):
    for name in ("last.safetensors", "best.safetensors", "checkpoints/step-000000030.safetensors"):
        a, b = load_file(one / name), load_file(other / name)
        assert a.keys() == b.keys()
        assert all(torch.equal(a[key], b[key]) for key in a), name
    assert losses_of(one) == losses_of(other)


def test_ten_kills_leave_the_same_weights_bit_for_bit(tmp_path):
    command = [sys.executable, TESTS / "killed_runs.py", tmp_path]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    resumed_from = json.loads(done.stdout)
    assert len(resumed_from) == 11 and resumed_from == sorted(resumed_from)
    assert resumed_from[0] == 0 < resumed_from[1], "all starts but the first go on from a checkpoint"
    assert_same_run(tmp_path / "undisturbed", tmp_path / "killed")


@pytest.mark.parametrize("recipe", ["hynet", "cdf"])
def test_resumed_run_equals_one_without_a_break(recipe, tmp_path, monkeypatch):
    changes = {"sec": 0.1, "checkpoint_every": 10}
    short_run(recipe, tmp_path / "whole", **changes)
    original, calls = checkpoint.write, []

    def stop_at_twenty(folder, state, config):
        path = original(folder, state, config)
        calls.append(state.step)
        if state.step == 20:
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr(checkpoint, "write", stop_at_twenty)
    with pytest.raises(KeyboardInterrupt):
        short_run(recipe, tmp_path / "broken", **changes)
    monkeypatch.undo()
    short_run(recipe, tmp_path / "broken", resume=True, **changes)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_sigterm_writes_a_checkpoint_and_exits_with_143(tmp_path):
    training_data.images().save(tmp_path / "store")
    settings = {**training_data.SHORT, "steps": 100_000, "checkpoint_every": 100_000, "validate_every": 100_000}
    settings |= {"recipe": "hardnet", "data": [str(tmp_path / "store")], "out": str(tmp_path / "run")}
    settings["network_options"] = training_data.narrow("hardnet")
    (tmp_path / "run.json").write_text(json.dumps(settings))
    process = subprocess.Popen([sys.executable, "-m", "patchprint.training", tmp_path / "run.json"], env=ENVIRONMENT)
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 240  # a busy machine needs a while to import PyTorch
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 143
    step = int(checkpoint.latest(tmp_path / "run" / "checkpoints").stem.removeprefix("step-"))
    assert step == len(losses_of(tmp_path / "run")) > 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    short_run("hardnet", folder, steps=4, checkpoint_every=2)
    return folder / "checkpoints" / "step-000000004.safetensors"


def read(path, recipe="hardnet", **changes):
    settings = {**training_data.SHORT, "steps": 4, "network_options": training_data.narrow(recipe), **changes}
    config = resolve(recipe, **settings)
    checkpoint.read(path, assembly.create(config, torch.device("cpu")), config)


def test_checkpoint_of_another_recipe(finished):
    with pytest.raises(ValueError, match="belongs to recipe hardnet, not hardnet-gor"):
        read(finished, "hardnet-gor")


def test_wrong_resume_leaves_the_run_as_it_was(finished):
    folder = finished.parents[1]
    before = (folder / "config.json").read_bytes()
    with pytest.raises(ValueError, match="belongs to recipe hardnet"):
        short_run("sosnet", folder, resume=True, steps=4)
    assert (folder / "config.json").read_bytes() == before


def test_checkpoint_with_other_settings(finished):
    with pytest.raises(ValueError, match=r"was made with lr 10\.0, not 5\.0"):
        read(finished, lr=5.0)
    read(finished, log_every=7)


def test_checkpoint_of_another_version(finished, tmp_path):
    save_file(
        load_file(finished), tmp_path / "old.safetensors", {"format": "patchprint-checkpoint-0", "patchprint": "0.0.9"}
    )
    with pytest.raises(ValueError, match=r"no checkpoint that patchprint .* reads \(it is from 0\.0\.9\)"):
        read(tmp_path / "old.safetensors")


@pytest.mark.parametrize("keep", [0, 5, 1000, -1])
def test_truncated_checkpoint(finished, tmp_path, keep):
    (tmp_path / "cut.safetensors").write_bytes(finished.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"cut\.safetensors is truncated or no checkpoint"):
        read(tmp_path / "cut.safetensors")


def test_resuming_where_nothing_is(tmp_path):
    with pytest.raises(ValueError, match="holds no checkpoint to resume from"):
        short_run("hardnet", tmp_path / "none", resume=True)


def test_full_disk_leaves_the_previous_checkpoint_and_says_so(tmp_path):
    config = resolve("hardnet", **{**training_data.SHORT, "network_options": training_data.narrow("")})
    state = assembly.create(config, torch.device("cpu"))
    good = checkpoint.write(tmp_path, dataclasses.replace(state, step=10), config)
    before = good.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match=r"checkpoint of step 20 could not be written .* step 10 is intact"):
            checkpoint.write(tmp_path, dataclasses.replace(state, step=20), config)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert checkpoint.latest(tmp_path) == good
    assert good.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [good.name]
