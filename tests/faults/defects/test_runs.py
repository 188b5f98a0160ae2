"""Defects of a review: runs that are stopped go on, and networks may be used in threads and children."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import pytest
import torch
from safetensors.torch import load_file
from skimage import data

from faults.defects.material import killed_after_file, killed_when
from support.command_server import CommandServer, Ended

STEPS = {"steps": 6, "batch": 16, "checkpoint_every": 2, "validate_every": 3, "device": "cpu"}
# Not the command, which chooses the threshold of the ratio test as well and takes ten times as long.
TRAIN = """
import json, sys
from patchprint.training import resolve, train

recipe, store, settings, out, resume = sys.argv[1:]
try:
    train(resolve(recipe, **json.loads(settings), data=(store,)), None, out=out, resume=resume == "True")
except ValueError as error:
    sys.exit(print("patchprint:", error) or 2)
"""


def train(
    server: CommandServer, store: Path, run: Path, recipe: str, kill: str = "", resume: bool = False, **changes: object
) -> Ended:
    settings = json.dumps({**STEPS, **changes})
    return server.program(kill + TRAIN, run.parent, recipe, store, settings, run, resume)


def assert_goes_on_as_without_a_break(
    server: CommandServer, store: Path, folder: Path, recipe: str, step: int, **changes: object
) -> None:
    """Killed after the checkpoint of a step and resumed, a run ends with the weights of one that was not killed."""
    assert train(server, store, folder / "whole", recipe, **changes).code == 0
    kill = killed_after_file(f"step-{step:09d}.safetensors")
    killed = train(server, store, folder / "killed", recipe, kill, **changes)
    assert killed.code == -9, killed
    resumed = train(server, store, folder / "killed", recipe, resume=True, **changes)
    assert resumed.code == 0, resumed
    for name in ("last.safetensors", "best.safetensors"):
        assert (folder / "killed" / name).is_file(), f"{name} is missing after resuming"
        expected, found = (load_file(folder / run / name) for run in ("whole", "killed"))
        other = [key for key, value in expected.items() if not torch.equal(value, found[key])]
        assert not other, f"{name} differs in {', '.join(other)}"


@pytest.mark.slow
def test_h4_a_tuning_killed_before_its_first_checkpoint_goes_on(server: CommandServer, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    cv2.imwrite(str(tmp_path / "photos" / "a.png"), data.camera()[130:490, 80:440])
    build = "data build homographies photos work/tracks --views 7 --max-keypoints 600"
    assert server.command(build, tmp_path).code == 0
    tune = "adapt photos --out new.safetensors --model hardnet.small --work work --device cpu --steps 4 --batch 64"
    kill = killed_when("event == 'tempfile.mkstemp' and 'checkpoints' in str(arguments[0])")
    assert server.command(tune, tmp_path, kill).code == -9
    ended = server.command(tune, tmp_path)
    assert ended.code == 0, ended
    assert (tmp_path / "new.safetensors").is_file()


def test_m2_counters_of_an_averaged_run_are_those_of_one_without_a_break(
    server: CommandServer, store: Path, tmp_path: Path
) -> None:
    assert_goes_on_as_without_a_break(server, store, tmp_path, "hardnet", 4, average=0.9, network_options={"width": 4})


def test_m5_a_training_that_diverges_says_so(server: CommandServer, store: Path, tmp_path: Path) -> None:
    """A spatial transformer that learned NaN ended the process (SIGSEGV)."""
    seldom = dict.fromkeys(("log_every", "validate_every", "checkpoint_every"), 100)  # which would look at the loss
    ended = train(server, store, tmp_path / "run", "doap-st", steps=20, lr=1e30, **seldom)
    assert ended.is_sentence and "step" in ended.said, ended


@pytest.mark.parametrize("name", ["hardnet", "doap-binary"])
def test_l6_describing_from_threads_leaves_a_network_in_training(
    name: str, server: CommandServer, tmp_path: Path
) -> None:
    ended = server.program(
        """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
import torch
from patchprint import networks

torch.manual_seed(0)
network = networks.create(sys.argv[1], width=8).train()
patches = torch.rand(40, 1, network.input_size, network.input_size)
expected = network.describe(patches)
modes, done = [], threading.Event()

def watch():
    while not done.is_set():
        modes.append(network.training)

watcher = threading.Thread(target=watch)
watcher.start()
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(lambda _: network.describe(patches), range(40)))
done.set()
watcher.join()
assert all(torch.equal(each, expected) for each in found), "a thread got other descriptors"
assert all(modes) and network.training, "the network was taken out of training"
""",
        tmp_path,
        name,
    )
    assert ended.code == 0, ended


def test_l7_other_data_do_not_resume_a_run(
    server: CommandServer, store: Path, other_store: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert train(server, store, run, "tfeat").code == 0
    (run / "checkpoints" / "step-000000006.safetensors").unlink()  # so that two steps are left
    ended = train(server, other_store, run, "tfeat", resume=True)
    assert ended.is_sentence and "other data" in ended.said, ended


def test_l7_a_flipped_bit_in_a_checkpoint_is_found(server: CommandServer, store: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(server, store, run, "tfeat").code == 0
    newest = run / "checkpoints" / "step-000000006.safetensors"
    damaged = bytearray(newest.read_bytes())
    damaged[-5] ^= 4
    newest.write_bytes(damaged)
    ended = train(server, store, run, "tfeat", resume=True)
    assert ended.is_sentence and newest.name in ended.said, ended
    newest.unlink()
    assert train(server, store, run, "tfeat", resume=True).code == 0, "without it the one before is taken"


def test_l11_a_child_forked_after_use_computes(server: CommandServer, tmp_path: Path) -> None:
    """As workers of a DataLoader do: they have none of the threads of their parent."""
    ended = server.program(
        """
import os, torch, patchprint

torch.set_num_threads(2)
model = patchprint.load("hardnet.small")
describe = getattr(model, "describe_patches", None) or model.describe
patches = torch.rand(400, 1, 32, 32)
expected = describe(patches)
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(describe(patches), expected) else 1)
assert os.waitpid(child, 0)[1] == 0, "the child got other descriptors"
""",
        tmp_path,
        seconds=20,
    )
    assert ended.code == 0, ended
