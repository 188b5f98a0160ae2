"""Work that takes long goes on where it was stopped, and ends as if it had not been: training, and describing a folder."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from pathlib import Path

import pytest

from patchprint import features
from patchprint.features.settings import DescribeSettings
from patchprint.networks import weights
from patchprint.storage import feature_files
from patchprint.storage.feature_folder import describe_folder
from patchprint.training import checkpoint, resolve
from patchprint.training.loop import train
from support import children, training_data
from support.known_images import write_textures
from support.training_data import short_run

SETTINGS = DescribeSettings(model="pixels", max_keypoints=30)
STEPS = {"steps": 6, "checkpoint_every": 2, "validate_every": 3}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_textures(tmp_path / "photos", 4, 60, 80)


def stop_after_checkpoint_of(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the checkpoint of a step and whatever comes after it."""
    write = checkpoint.write

    def stopping(folder: Path, state: checkpoint.TrainState, config: object) -> Path:
        path = write(folder, state, config)
        if state.step == step:
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr(checkpoint, "write", stopping)


@pytest.mark.parametrize("step", [2, 6])
@pytest.mark.parametrize("hold_out", [True, False])
def test_m1_weights_are_those_of_the_last_checkpoint_wherever_a_run_was_killed(
    step: int, hold_out: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {**STEPS, "hold_out": hold_out}
    short_run("hardnet", tmp_path / "whole" / "run", **changes)
    stop_after_checkpoint_of(step, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        short_run("hardnet", tmp_path / "killed" / "run", **changes)
    monkeypatch.undo()
    short_run("hardnet", tmp_path / "killed" / "run", resume=True, **changes)
    for name in ("last.safetensors", "best.safetensors"):
        assert (tmp_path / "killed" / "run" / name).read_bytes() == (tmp_path / "whole" / "run" / name).read_bytes(), (
            name
        )


def test_m1_a_finished_run_that_is_resumed_keeps_its_calibration(tmp_path: Path) -> None:
    outcome, _ = short_run("hardnet", tmp_path / "run", **STEPS)
    weights.rewrite_info(outcome.last, dataclasses.replace(weights.read_info(outcome.last), ratio=0.77))
    before = outcome.last.read_bytes()
    short_run("hardnet", tmp_path / "run", resume=True, **STEPS)
    assert outcome.last.read_bytes() == before


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_describing_that_was_killed_ends_as_if_it_had_not_been(photos: Path, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    describe_folder(photos, whole, SETTINGS)
    moment, endings = 1, []
    while (ended := children.kill_at(moment, lambda: describe_folder(photos, out, SETTINGS))).how == "killed":
        assert children.run(lambda: describe_folder(photos, out, SETTINGS)).how == "done"
        assert folder_bytes(out) == folder_bytes(whole), f"killed before change {moment}"
        shutil.rmtree(out)
        endings.append(ended)
        moment += 3
    assert ended.how == "done" and len(endings) >= 3


def test_a_photo_that_disappears_is_named_and_left_out(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    save = feature_files.save

    def save_and_lose_another(item: features.Features, path: Path) -> None:
        save(item, path)
        (photos / "2.png").unlink(missing_ok=True)

    monkeypatch.setattr(feature_files, "save", save_and_lose_another)
    found = describe_folder(photos, tmp_path / "out", SETTINGS, report=said.append)
    assert list(found) == ["0.png", "1.png", "3.png"] and found.left_out == ["2.png"]
    assert len(said) == 1 and "2.png" in said[0]


def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of the machine while a run trains, nor the times of files, by which an older checkpoint looks newer."""
    whole, _ = short_run("hardnet", tmp_path / "whole", **STEPS)
    stop_after_checkpoint_of(4, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        short_run("hardnet", tmp_path / "jumped", **STEPS)
    monkeypatch.undo()
    for age, path in enumerate(sorted((tmp_path / "jumped" / "checkpoints").iterdir())):
        os.utime(path, (4e9 - 1000 * age,) * 2)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() - 4e8)
    config = resolve("hardnet", **{**training_data.SHORT, "network_options": training_data.narrow("hardnet"), **STEPS})
    resumed = train(config, training_data.images(), out=tmp_path / "jumped", resume=True)
    assert weights.read_info(resumed.last).sha256 == weights.read_info(whole.last).sha256
