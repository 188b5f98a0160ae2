"""The first hour in short: the same steps as ``make first-hour``, on four small photos, with the package of this environment.

A fresh virtual environment would take minutes; here each command runs in this process. What is marked ``long`` is left to
``make first-hour`` (nightly), which plays all of it with the wheel and real photos.
"""

import shlex
from pathlib import Path

import pytest

from first_hour import odd_images
from first_hour.clients import CLIENTS
from first_hour.hour import STEPS, Amounts, lay_the_desk
from first_hour.judging import (
    Ended,
    everything_below,
    problem_of_odd_image,
    problem_of_step,
    problem_of_wrong_command,
)
from first_hour.wrong_commands import wrong_commands
from patchprint import cli
from support.scenes import Room

pytestmark = pytest.mark.usefixtures("small_calibration")
AMOUNTS = Amounts(keypoints=300, steps=2, batch=16)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hour")
    names = Room(views=5, height=240, width=320).write(folder / "taken", "{}.jpg")
    (folder / "desk").mkdir()
    lay_the_desk(folder / "desk", [folder / "taken" / name for name in names])
    return folder / "desk"


def typed(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> Ended:
    capfd.readouterr()
    code = cli.main(arguments)
    printed = capfd.readouterr()
    return Ended(code, printed.out, printed.err)


@pytest.mark.slow
def test_the_hour(desk: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """One test: every step stands on those before it, and so do the wrong commands."""
    monkeypatch.chdir(desk)
    for step in STEPS:
        if not step.long:
            arguments = step.arguments(AMOUNTS)
            ended = Ended(0, CLIENTS[arguments[0]](), "") if step.client else typed(arguments, capfd)
            problem = problem_of_step(step, AMOUNTS, desk, ended)
            assert problem == "", f"{step.line}: {problem}"
    before = everything_below(desk)
    problems = {
        line: problem_of_wrong_command(words, desk, before, typed(shlex.split(line), capfd))
        for line, words in wrong_commands().items()
    }
    assert {line: problem for line, problem in problems.items() if problem} == {}


@pytest.mark.slow
def test_odd_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Each is matched with itself, and all are described at once: the good ones are there, the others named."""
    outcomes = odd_images.write(tmp_path / "odd")
    monkeypatch.chdir(tmp_path / "odd")
    few = ["--model", "pixels", "--max-keypoints", "50"]
    problems = {
        name: problem_of_odd_image(name, outcome, typed(["match", *few, f"./{name}", f"./{name}"], capfd))
        for name, outcome in outcomes.items()
    }
    assert {name: problem for name, problem in problems.items() if problem} == {}
    described = typed(["describe", ".", "--out", "../features", "--max-size", "64", *few], capfd)
    assert described.code == 0, described.err
    for name, outcome in outcomes.items():
        there = (tmp_path / "features" / f"{name}.npz").is_file()
        named = any(f"left out: {called}" in described.err for called in (name, repr(name)))
        assert there != named or name == "a-folder.jpg", name  # a folder is searched for photos
        assert outcome == "either" or there == (outcome == odd_images.READ), name
