"""A run goes on from its last checkpoint as if nothing had happened, whatever stopped it."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from patchprint.training import checkpoint
from support import training_data
from support.checkout import TESTS, environment
from support.training_data import losses_of, short_run
from support.ubc_sets import write_ubc


def assert_same_run(one, other):
    for name in ("last.safetensors", "best.safetensors", "checkpoints/step-000000030.safetensors"):
        a, b = load_file(one / name), load_file(other / name)
        assert a.keys() == b.keys()
        assert all(torch.equal(a[key], b[key]) for key in a), name
    assert losses_of(one) == losses_of(other)


@pytest.mark.slow
def test_ten_kills_leave_the_same_weights_bit_for_bit(tmp_path):
    command = [sys.executable, TESTS / "support" / "killed_runs.py", tmp_path]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    resumed_from = json.loads(done.stdout)
    assert len(resumed_from) == 11 and resumed_from == sorted(resumed_from)
    assert resumed_from[0] == 0 < resumed_from[1], "all starts but the first go on from a checkpoint"
    assert_same_run(tmp_path / "undisturbed", tmp_path / "killed")


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("hynet", {"sec": 0.1}),
        ("cdf", {"sec": 0.1}),
        ("hardnet", {"keep_best": 4, "validate_every": 3}),
        ("distill", {"teacher": ("patchprint.tiny",)}),
        ("metric-cub", {"sec": 0.5, "init": None, "batch": 4}),
        ("simclr", {"sec": 0.5, "batch": 4}),
    ],
)
def test_resumed_run_equals_one_without_a_break(recipe, changes, tmp_path, monkeypatch):
    if recipe == "hardnet":
        write_ubc(tmp_path / "test")
        changes = {**changes, "select_on_test": (str(tmp_path / "test"),)}
    source = training_data.whole_images(tmp_path) if recipe in ("metric-cub", "simclr") else None
    changes = {"source": source, "checkpoint_every": 10, **changes}
    whole, _ = short_run(recipe, tmp_path / "whole", **changes)
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
    resumed, _ = short_run(recipe, tmp_path / "broken", resume=True, **changes)
    assert resumed.kept == whole.kept
    kept = [{path.name for path in (tmp_path / run).glob("best-*")} for run in ("whole", "broken")]
    assert kept[0] == kept[1] and len(kept[0]) == (4 if recipe == "hardnet" else 0)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_l7_a_signal_writes_a_checkpoint_and_ends_with_its_code(number, code, tmp_path):
    training_data.images().save(tmp_path / "store")
    settings = {**training_data.SHORT, "steps": 100_000, "checkpoint_every": 100_000, "validate_every": 100_000}
    settings |= {"recipe": "hardnet", "data": [str(tmp_path / "store")], "out": str(tmp_path / "run")}
    settings["network_options"] = training_data.narrow("hardnet")
    (tmp_path / "run.json").write_text(json.dumps(settings))
    # In the background, as tests may be, the process would ignore Ctrl-C.
    start = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "runpy.run_module('patchprint.training', run_name='__main__')"
    process = subprocess.Popen([sys.executable, "-c", start, tmp_path / "run.json"], env=environment())
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 240  # a busy machine needs a while to import PyTorch
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(timeout=120) == code
    step = int(checkpoint.latest(tmp_path / "run" / "checkpoints").stem.removeprefix("step-"))
    assert step == len(losses_of(tmp_path / "run")) > 0


def test_resuming_where_nothing_is(tmp_path):
    with pytest.raises(ValueError, match="holds no checkpoint to resume from"):
        short_run("hardnet", tmp_path / "none", resume=True)
