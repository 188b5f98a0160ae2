"""``patchprint calibrate``: a threshold for a model, and into its weight file."""

import json
from pathlib import Path

import cv2
import pytest
import torch

from patchprint import cli, networks
from patchprint.networks import weights
from support.known_images import texture


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for seed in range(2):
        cv2.imwrite(str(tmp_path / "photos" / f"{seed}.png"), texture(240, 260, seed))
    return tmp_path / "photos"


SMALL = ["--views", "1", "--max-keypoints", "200"]


def test_the_threshold_is_printed_and_written(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    file = tmp_path / "net.safetensors"
    before = weights.save(networks.create("tfeat").eval(), file)
    command = ["calibrate", str(file), "--data", str(photos), *SMALL]
    assert cli.main([*command, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert 0.5 <= scores["ratio"] <= 1 and scores["right_kept"] > scores["wrong_kept"]
    assert weights.read_info(file).ratio is None
    assert cli.main([*command, "--write"]) == 0
    assert f"ratio {scores['ratio']:.2f} keeps" in capsys.readouterr().out
    after = weights.read_info(file)
    assert after.ratio == scores["ratio"] and after.sha256 == before.sha256
    assert weights.load_network(file).info.ratio == scores["ratio"]


def test_baselines_are_measured_but_not_written_to(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["calibrate", "rootsift", "--data", str(photos), *SMALL]
    assert cli.main(command) == 0
    assert capsys.readouterr().out.startswith("rootsift: ratio ")
    assert cli.main([*command, "--write"]) == 2
    assert "rootsift is no weight file" in capsys.readouterr().err


def test_a_bad_photo_is_left_out_and_named(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (photos / "broken.jpg").write_text("no image")
    command = ["calibrate", "rootsift", "--data", str(photos), *SMALL]
    assert cli.main(command) == 0
    printed = capsys.readouterr()
    assert "left out" in printed.err and "broken.jpg" in printed.err and "rootsift: ratio " in printed.out
    assert cli.main([*command, "--strict"]) == 2
    assert "broken.jpg" in capsys.readouterr().err
    for photo in photos.glob("*.png"):
        photo.unlink()
    assert cli.main(command) == 2
    assert "none of the images" in capsys.readouterr().err
