"""Work that takes long goes on where it was stopped and ends as if it had not been; networks work in threads and children."""

import dataclasses
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import pytest
import torch
from skimage import data

import patchprint
from faults.conftest import Typed, snapshot
from patchprint import networks
from patchprint.common.errors import UserError
from patchprint.features.extract import DescribeSettings
from patchprint.networks import weights
from patchprint.storage import describe_jobs
from patchprint.storage.feature_folder import describe_folder
from patchprint.training import checkpoint
from support import children, training_data
from support.checkout import environment
from support.children import Ending
from support.training_data import short_run

SETTINGS = DescribeSettings(model="pixels", max_keypoints=30)
STEPS = {"steps": 6, "checkpoint_every": 2, "validate_every": 3}


def killed_run(run: Path, step: int, monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    """A training that was killed between the checkpoint of a step and whatever comes after it."""
    write = checkpoint.write

    def stopping(folder: Path, state: checkpoint.TrainState, config: object) -> Path:
        path = write(folder, state, config)
        if state.step == step:
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr(checkpoint, "write", stopping)
    with pytest.raises(KeyboardInterrupt):
        short_run("hardnet", run, **STEPS, **changes)
    monkeypatch.setattr(checkpoint, "write", write)


@pytest.mark.parametrize(
    ("step", "changes"),
    [(2, {}), (6, {"average": 0.9}), (4, {"average": 0.9, "hold_out": False}), (6, {"hold_out": False})],
)
def test_m1_m2_weights_are_those_of_the_last_checkpoint_wherever_a_run_was_killed(
    step: int, changes: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counters of an averaged run, too."""
    whole, killed = tmp_path / "whole" / "run", tmp_path / "killed" / "run"
    short_run("hardnet", whole, **STEPS, **changes)
    killed_run(killed, step, monkeypatch, **changes)
    short_run("hardnet", killed, resume=True, **STEPS, **changes)
    for name in ("last.safetensors", "best.safetensors"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name


def test_m1_l7_a_finished_run_keeps_its_calibration_and_resumes_with_its_own_data_and_whole_checkpoints(
    tmp_path: Path,
) -> None:
    outcome, _ = short_run("hardnet", tmp_path / "run", **STEPS)
    weights.rewrite_info(outcome.last, dataclasses.replace(weights.read_info(outcome.last), ratio=0.77))
    before = outcome.last.read_bytes()
    short_run("hardnet", tmp_path / "run", resume=True, **STEPS)
    assert outcome.last.read_bytes() == before
    newest = checkpoint.latest(tmp_path / "run" / "checkpoints")
    damaged = bytearray(newest.read_bytes())
    damaged[-5] ^= 4
    newest.write_bytes(damaged)
    with pytest.raises(UserError, match=newest.name):
        short_run("hardnet", tmp_path / "run", resume=True, **STEPS)
    newest.unlink()
    with pytest.raises(UserError, match="other data"):
        short_run("hardnet", tmp_path / "run", training_data.images(points=80), resume=True, **STEPS)
    short_run("hardnet", tmp_path / "run", resume=True, **STEPS)  # from the checkpoint before


@pytest.mark.slow
def test_h4_a_tuning_killed_before_its_first_checkpoint_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    cv2.imwrite("photos/a.png", data.camera()[130:490, 80:440])
    assert typed("data build homographies photos work/tracks --views 7 --max-keypoints 600")[0] == "0"
    tune = "adapt photos --out new.safetensors --model patchprint.tiny --work work --device cpu --steps 4 --batch 64"

    def writes_checkpoint(event: str, arguments: tuple) -> bool:
        return event == "tempfile.mkstemp" and "checkpoints" in str(arguments[0])

    assert typed(tune, lambda action: children.kill_when(writes_checkpoint, action))[0] == "killed"
    assert typed(tune, children.run)[0] == "0"
    assert Path("new.safetensors").is_file()


def test_m5_a_spatial_transformer_that_diverges_says_so(tmp_path: Path) -> None:
    """Having learned NaN it ended the process (SIGSEGV)."""
    seldom = dict.fromkeys(("log_every", "validate_every", "checkpoint_every"), 100)  # which would look at the loss
    ended = children.run(lambda: short_run("doap-st", tmp_path / "run", **seldom, steps=20, lr=1e30))
    assert ended.how == "refused" and "step" in ended.said, ended


def test_describing_that_was_killed_ends_as_if_it_had_not_been(desk: Path) -> None:
    describe_folder(desk / "photos", desk / "whole", SETTINGS)
    whole, out, moment, kills = snapshot(desk / "whole"), desk / "out", 1, 0

    def describe() -> None:
        describe_folder(desk / "photos", out, SETTINGS)

    while (ended := children.kill_at(moment, describe)).how == "killed":
        assert children.run(describe).how == "done"
        assert snapshot(out) == whole, f"killed before change {moment}"
        shutil.rmtree(out)
        moment, kills = moment + 3, kills + 1
    assert ended.how == "done" and kills >= 3


def test_an_image_that_disappears_is_named_and_left_out(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    save = describe_jobs._save

    def save_and_lose_another(job: describe_jobs.Job, made: bytes | Exception) -> Exception | None:
        (desk / "photos" / "1.png").unlink(missing_ok=True)
        return save(job, made)

    monkeypatch.setattr(describe_jobs, "_save", save_and_lose_another)
    found = describe_folder(desk / "photos", desk / "out", SETTINGS, report=said.append)
    assert list(found) == ["0.png", "2.png"] and found.left_out == ["1.png"]
    assert len(said) == 1 and "1.png" in said[0]


def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of the machine while a run trains, nor the times of files, by which an older checkpoint looks newer."""
    whole, _ = short_run("hardnet", tmp_path / "whole", **STEPS)
    killed_run(tmp_path / "jumped", 4, monkeypatch)
    for age, path in enumerate(sorted((tmp_path / "jumped" / "checkpoints").iterdir())):
        os.utime(path, (4e9 - 1000 * age,) * 2)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 4e8)
    resumed, _ = short_run("hardnet", tmp_path / "jumped", resume=True, **STEPS)
    assert weights.read_info(resumed.last).sha256 == weights.read_info(whole.last).sha256


@pytest.mark.parametrize("name", ["hardnet", "doap-binary"])
def test_l6_describing_from_threads_leaves_a_network_in_training(name: str) -> None:
    torch.manual_seed(0)
    network = networks.create(name, width=8).train()
    patches = torch.rand(40, 1, network.input_size, network.input_size)
    expected = network.describe(patches)
    modes, done = [], threading.Event()

    def watch() -> None:
        while not done.wait(0.001):
            modes.append(network.training)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: network.describe(patches), range(40)))
    done.set()
    watcher.join()
    assert all(torch.equal(each, expected) for each in found), "a thread got other descriptors"
    assert all(modes) and network.training, "the network was taken out of training"


def test_l11_a_child_forked_after_use_computes() -> None:
    """As workers of a DataLoader do: they have none of the threads of their parent."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        model, patches = patchprint.load("patchprint.tiny"), torch.rand(400, 1, 32, 32)
        expected = model.describe_patches(patches)
        ended = children.run(lambda: "" if torch.equal(model.describe_patches(patches), expected) else "other")
    finally:
        torch.set_num_threads(threads)
    assert ended == Ending("done")


@pytest.mark.parametrize(
    ("name", "engine"), [("rootsift", "auto"), ("patchprint.tiny", "float32"), ("patchprint.tiny", "bfloat16")]
)
def test_features_and_matches_have_the_same_bytes_with_any_number_of_threads(name: str, engine: str) -> None:
    images, found = (data.camera(), data.camera()[40:, 60:]), []
    threads = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            model = patchprint.load(name, engine=engine)
            a, b = (patchprint.extract(image, model, max_keypoints=700) for image in images)
            matches = patchprint.verify(a, b, patchprint.match(a, b))
            numbers = (a.keypoints.xy, a.descriptors, b.descriptors, matches.indices, matches.distance, matches.inliers)
            found.append([each.numpy().tobytes() for each in numbers if each is not None])
    finally:
        torch.set_num_threads(threads)
    assert len(found[0]) == 6 and found[1] == found[0] and found[2] == found[0]


@pytest.mark.skipif(sys.platform != "linux", reason="GOMP, which says how it was set, is on Linux")
@pytest.mark.parametrize(
    ("program", "spins"), [(("-m", "patchprint", "models"), "0"), (("-c", "import patchprint, torch"), "300000")]
)
def test_m8_threads_of_a_command_sleep_while_they_wait(program: tuple[str, ...], spins: str) -> None:
    """On a busy machine those that spin slow each other down; a program that imports patchprint decides for itself."""
    unset = {name: value for name, value in environment().items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    command = [sys.executable, *program]
    done = subprocess.run(
        command, env=unset | {"OMP_DISPLAY_ENV": "VERBOSE"}, capture_output=True, text=True, check=True
    )
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr
