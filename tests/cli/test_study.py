"""The command: one for each study, flags that reach the engine, one sentence for what is wrong."""

import json
from pathlib import Path

import pytest

from patchprint.cli import main, study as command
from support.toy_studies import toy_study


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "STUDIES", {"toy": toy_study()})
    monkeypatch.setattr(command, "COMMANDS", {"toy": command._command("toy")})


@pytest.mark.usefixtures("toy")
def test_flags_reach_the_study(training_store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "o"
    arguments = ["--data", f"train={training_store}", "--data", f"test={training_store}", "--out", str(out)]
    limits = ["--only", "hynet-*", "--seeds", "2", "5", "--set", "batch=4", "--set", "network_options.width=8"]
    rest = ["--budget", "0.9", "--device", "cpu", "--keep"]
    assert main(["study", "toy", *arguments, *limits, *rest, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    run = result["scores"]["rows"][3]["runs"][1]
    assert (run["name"], run["config"]["batch"], run["config"]["steps"]) == ("hynet-sec-seed5", 4, 11)
    assert run["config"]["network_options"]["width"] == 8
    assert list(out.rglob("last.safetensors"))
    assert main(["study", "toy", *arguments, *limits, *rest]) == 0
    assert capsys.readouterr().out.startswith("# toy: a toy")


@pytest.mark.usefixtures("toy")
def test_a_failed_run_is_exit_code_1(training_store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--data", f"train={training_store}", f"test={training_store}", "--out", str(tmp_path / "o")]
    given = ["--only", "hardnet-plain-seed0", "--set", "lr=1e30", "--device", "cpu"]
    assert main(["study", "toy", *arguments, *given]) == 1
    assert "failed" in capsys.readouterr().out
