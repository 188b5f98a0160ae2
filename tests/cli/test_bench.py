"""``patchprint bench``: tables and JSON; wrong use is told before anything is timed."""

import json
from pathlib import Path

import pytest

from patchprint import cli
from support.scenes import Room

SMALL = ["--stages", "latency", "--max-keypoints", "30", "--megapixels", "0.03", "--rounds", "1"]


def test_text_and_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Room(views=2, height=120, width=160, focal=140.0).write(tmp_path / "images", "{}.jpg")
    out = tmp_path / "bench.json"
    command = ["bench", "--data", str(tmp_path / "images"), *SMALL, "--models", "patchprint.tiny", "--device", "cpu"]
    command += ["--out", str(out)]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    result = json.loads(out.read_text())
    assert result["data"]["path"] == str(tmp_path / "images") and result["settings"]["device"] == "cpu"
    assert all(name in text for name in result["scores"]["latency"]["contenders"])
    assert cli.main(command) == 2, "a file that exists stays"
    assert "--force" in capsys.readouterr().err
    assert cli.main([*command, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["benchmark"] == "speed"
