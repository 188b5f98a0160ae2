"""The scripts in examples/ run on rendered images, and examples/README.md names each of them."""

import runpy
import shutil
import sys
from pathlib import Path

import cv2
import pytest

from support.checkout import ROOT
from support.known_images import texture
from support.scenes import Room

pytestmark = pytest.mark.usefixtures("small_calibration")
EXAMPLES = ROOT / "examples"


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    Room(views=4, height=120, width=160, focal=140.0).write(folder)
    return folder


@pytest.fixture
def textures(tmp_path: Path) -> Path:
    folder = tmp_path / "textures"
    folder.mkdir()
    for seed in range(2):
        cv2.imwrite(str(folder / f"{seed}.png"), texture(160, 200, seed))
    return folder


def test_every_example_is_in_the_readme() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [file.name for file in EXAMPLES.glob("*.py") if f"({file.name})" not in text] == []


def test_match_two_images(views: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = sorted(views.iterdir())[:2]
    run(monkeypatch, "match_two_images.py", a, b, tmp_path / "m.png", "--model", "patchprint.tiny")
    assert cv2.imread(str(tmp_path / "m.png")) is not None
    assert len((tmp_path / "m.csv").read_text().splitlines()) > 30


@pytest.mark.slow
def test_sfm_from_folder(
    views: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(views, tmp_path / "images")
    run(monkeypatch, "sfm_from_folder.py", tmp_path / "images", tmp_path / "out", "--model", "rootsift")
    assert "4 images, " in capsys.readouterr().out


@pytest.mark.slow
def test_train_on_your_images(
    textures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--recipe", "tfeat", "--steps", "6", "--batch", "32"]
    run(monkeypatch, "train_on_your_images.py", textures, tmp_path / "work", *settings)
    assert "held-out FPR95" in capsys.readouterr().out
    assert (tmp_path / "work" / "run" / "best.safetensors").is_file()


def test_add_a_loss(textures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "add_a_loss.py", textures, "--steps", 4)
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["soft", "hardnet"]
