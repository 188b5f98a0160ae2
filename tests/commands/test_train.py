"""``patchprint train`` and ``python -m patchprint.training``: flags, suggestions, exit codes, what is printed."""

import json
import subprocess
import sys

import pytest

from patchprint.cli import main
from patchprint.training.__main__ import main as main_without_cli
from training_data import SHORT, images, narrow


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "store"
    images(points=60).save(folder)
    return str(folder)


SMALL = ["--steps", "2", "--batch", "8", "--network", "width=4", "--network", "dim=16", "--device", "cpu"]


def test_trains_and_prints_the_outcome(store, tmp_path, capsys):
    run = tmp_path / "run"
    flags = ["--sec", "0.5", "--lr", "0.1", "--loss", "margin=0.5", "--freeze", "features.0", "--json"]
    assert main(["train", "hardnet", "--data", store, "--out", str(run), *SMALL, *flags]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["steps"] == 2
    config = json.loads((run / "config.json").read_text())
    assert config["loss_settings"] == {"margin": 0.5}
    assert config["network_options"] == {"dropout": 0.3, "width": 4, "dim": 16}
    assert (config["sec"], config["lr"], config["freeze"]) == (0.5, 0.1, ["features.0"])
    assert main(["train", "hardnet", "--data", store, "--out", str(run), *SMALL, *flags, "--resume"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hardnett"], "did you mean hardnet"),
        (["hardnet"], "needs --data"),
        (["hardnet", "--data", "nowhere"], "nowhere"),
        (["hardnet", "--data", "STORE", "--network", "wide=4"], "did you mean width"),
        (["hardnet", "--data", "STORE", "--network", "width"], "name=value"),
        (["hardnet", "--data", "STORE", "--batch", "8", "--augmentation", "wild"], "no augmentation 'wild'"),
        (["hardnet", "--data", "STORE", "--device", "abacus"], "abacus"),
        (["hardnet", "--data", "STORE", "--batch", "100000"], "fewer than --batch 100000; give --batch 32"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(arguments, words, store, tmp_path, capsys):
    arguments = [store if word == "STORE" else word for word in arguments]
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1


def test_wrong_flag_gets_a_suggestion():
    command = [sys.executable, "-m", "patchprint", "train", "hardnet", "--stepz", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "did you mean --steps?" in done.stderr
    assert done.stdout == ""


def test_json_file_trains_without_the_command_line_packages(store, tmp_path, monkeypatch, capsys):
    settings = {**SHORT, "steps": 2, "network_options": narrow("hardnet")}
    settings |= {"recipe": "hardnet", "data": [store], "out": str(tmp_path / "run")}
    (tmp_path / "run.json").write_text(json.dumps(settings))
    monkeypatch.setattr(sys, "argv", ["training", str(tmp_path / "run.json")])
    assert main_without_cli() == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ("{", "is not JSON", 2),
        ("[]", "holds no JSON object", 2),
        ('{"recipe": "hardnet", "data": []}', "lacks 'out'", 2),
        ('{"recipe": "hardnet", "data": [], "out": "x", "stepz": 1}', "did you mean 'steps'", 2),
        (None, "No such file", 1),
    ],
)
def test_bad_json_files(text, words, code, tmp_path, monkeypatch, capsys):
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    monkeypatch.setattr(sys, "argv", ["training", str(tmp_path / "run.json")])
    assert main_without_cli() == code
    assert words in capsys.readouterr().err
