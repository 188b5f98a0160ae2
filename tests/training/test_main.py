"""``python -m patchprint.training run.json``, for machines without the command-line packages."""

import json
import sys

import pytest

from patchprint.training.__main__ import main as main_without_cli
from support.training_data import SHORT, narrow


def test_json_file_trains_without_the_command_line_packages(training_store, tmp_path, monkeypatch, capsys):
    settings = {**SHORT, "steps": 2, "network_options": narrow("hardnet")}
    settings |= {"recipe": "hardnet", "data": [training_store], "out": str(tmp_path / "run")}
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
        ('{"data": [], "out": "x"}', "lacks 'recipe'", 2),
        ('{"recipe": "hardnet", "out": "x"}', "lacks 'data'", 2),
        ('{"recipe": "hardnet", "data": [], "out": "x", "stepz": 1}', "did you mean steps", 2),
        (None, "is not there", 2),
    ],
)
def test_bad_json_files(text, words, code, tmp_path, monkeypatch, capsys):
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    monkeypatch.setattr(sys, "argv", ["training", str(tmp_path / "run.json")])
    assert main_without_cli() == code
    assert words in capsys.readouterr().err
