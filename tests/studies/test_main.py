"""``python -m patchprint.studies``: the same study without tyro, and the exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchprint import studies
from patchprint.common.registry import Registry
from patchprint.studies.__main__ import main
from support.toy_studies import toy_study


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    from patchprint.studies import __main__ as door

    monkeypatch.setattr(door, "STUDIES", Registry("study", {"toy": toy_study()}))


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["studies", *arguments])
    return main()


ALL = "--only hardnet-* --seeds 3 --set batch=4 sec=0.5 --budget 0.9 --device cpu --json"


@pytest.mark.usefixtures("toy")
def test_flags_reach_the_study(
    training_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ["--data", f"train={training_store}", "--data", f"test={training_store}"]
    assert called(monkeypatch, "toy", *sets, "--out", str(tmp_path / "o"), *ALL.split()) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["settings"] == {
        "budget": 0.9, "engine": "float32", "seeds": [3], "set": {"batch": 4, "sec": 0.5}, "weights": "last",
    }  # fmt: skip
    config = result["scores"]["rows"][1]["runs"][0]["config"]
    assert (config["batch"], config["sec"], config["steps"], config["seed"]) == (4, 0.5, 11, 3)
    assert result["scores"]["rows"][2]["runs"][0]["error"] == "not run"


@pytest.mark.slow
def test_it_needs_no_tyro(tmp_path: Path) -> None:
    (tmp_path / "tyro.py").write_text("raise ImportError('there is no tyro here')\n")
    source = Path(studies.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{source}"}
    done = subprocess.run(
        [sys.executable, "-m", "patchprint.studies", "sec-patches", "--out", str(tmp_path / "o")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "the study needs --data train=PATH" in done.stderr
