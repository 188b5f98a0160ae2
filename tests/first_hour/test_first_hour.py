"""The first hour in short: the same steps as ``make first-hour``, on four small photos, with the package of this environment.

A fresh virtual environment would take minutes; here each command runs in this process. What is marked ``long`` is left to
``make first-hour`` (nightly), which plays all of it with the wheel and real photos.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from first_hour import odd_pictures
from first_hour.clients import CLIENTS
from first_hour.hour import STEPS, Amounts, Step, lay_the_desk
from first_hour.judging import Ended, everything_below, of_odd_picture, of_step, of_wrong_command
from first_hour.wrong_commands import WrongCommand, wrong_commands
from patchprint import cli
from support.scenes import Room

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
            problem = of_step(step, AMOUNTS, desk)(done(step, capfd))
            assert problem == "", f"{step.line}: {problem}"
    before = everything_below(desk)
    problems = {wrong.line: refused(wrong, desk, before, capfd) for wrong in wrong_commands()}
    assert {line: problem for line, problem in problems.items() if problem} == {}


def done(step: Step, capfd: pytest.CaptureFixture[str]) -> Ended:
    arguments = step.arguments(AMOUNTS)
    return Ended(0, CLIENTS[arguments[0]](), "") if step.client else typed(arguments, capfd)


def refused(wrong: WrongCommand, desk: Path, before: dict, capfd: pytest.CaptureFixture[str]) -> str:
    return of_wrong_command(wrong, desk, before)(typed(wrong.arguments, capfd))


@pytest.mark.slow
def test_odd_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Each is matched with itself, and all are described at once: the good ones are there, the others named."""
    outcomes = odd_pictures.write(tmp_path / "odd")
    monkeypatch.chdir(tmp_path / "odd")
    few = ["--model", "pixels", "--max-keypoints", "50"]
    problems = {}
    for name, outcome in outcomes.items():
        problem = of_odd_picture(name, outcome)(typed(["match", *few, f"./{name}", f"./{name}"], capfd))
        problems |= {name: problem} if problem else {}
    assert problems == {}
    described = typed(["describe", ".", "--out", "../features", *few], capfd)
    assert described.code == 0, described.err
    for name, outcome in outcomes.items():
        there = (tmp_path / "features" / f"{name}.npz").is_file()
        named = any(f"left out: {called}" in described.err for called in (name, repr(name)))
        assert there != named or name == "a-folder.jpg", name  # a folder is searched for photos
        assert outcome == "either" or there == (outcome == odd_pictures.READ), name


def test_the_list_is_as_long_as_the_issue_asks() -> None:
    assert len(wrong_commands()) >= 100
    assert len(odd_pictures.PICTURES) >= 30
