"""``patchprint bench``: tables, JSON and pictures; wrong use is told before anything is timed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchprint import cli
from support.scenes import Room

SMALL = [
    "--stages",
    "match",
    "--max-keypoints",
    "30",
    "--megapixels",
    "0.03",
    "--rounds",
    "1",
    "--models",
    "hardnet.small",
]


def test_text_result_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Room(views=2, height=120, width=160, focal=140.0).write(tmp_path / "photos", "{}.jpg")
    out = [str(tmp_path / name) for name in ("bench.json", "bench.svg")]
    command = ["bench", "--data", str(tmp_path / "photos"), *SMALL, "--device", "cpu", "--out", *out]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    result = json.loads(Path(out[0]).read_text())
    assert result["data"]["path"] == str(tmp_path / "photos") and result["settings"]["device"] == "cpu"
    assert all(name in text for name in result["scores"]["match"]["contenders"])
    assert all(f"left out: {name}: {why}" in text for name, why in result["scores"]["left_out"].items())
    assert Path(out[1]).read_text().lstrip().startswith("<?xml")
    assert cli.main(command) == 2, "files that exist stay"
    assert "--force" in capsys.readouterr().err


def test_growth_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--growth", "--counts", "5", "10", "--models", "hardnet.small", "--megapixels", "0.03", "--device", "cpu"]
    assert cli.main(["bench", *words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["keypoints"] for row in result["scores"]["hardnet.small"]["rows"]] == [5, 10]
    assert cli.main(["bench", *words]) == 0
    assert "to the power of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--out", "speed.txt"], "ends in none of"),
        (["--stages", "mach"], "did you mean match"),
        (["--models", "hardnett"], "did you mean hardnet"),
        (["--rounds", "0"], "--rounds is 0"),
        (["--busy", "999"], "--busy is 999"),
        (["--engines", "steam"], "no engine 'steam'"),
    ],
)
def test_wrong_use(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--megapixels", "0.03", "--device", "cpu", *words]) == 2
    assert sentence in capsys.readouterr().err
