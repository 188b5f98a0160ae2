"""``patchprint export``: a file, its parity, and polite refusals."""

import json
from pathlib import Path

import pytest

from patchprint import cli
from patchprint.networks import weights
from support.network_patches import trained_looking

pytest.importorskip("onnxruntime")


@pytest.mark.slow
def test_a_weight_file_becomes_onnx_with_its_parity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info = weights.save(trained_looking("tfeat", width=4), tmp_path / "mine.safetensors")
    out = tmp_path / "net.onnx"
    out.write_text("was here before")
    arguments = ["export", str(tmp_path / "mine.safetensors"), "--out", str(out), "--json"]
    assert cli.main(arguments) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "was here before"
    assert cli.main([*arguments, "--force"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["sha256"] == info.sha256
    assert answer["input"] == {"name": "patches", "shape": ["N", 1, 32, 32], "dtype": "float32 in [0, 1]"}
    assert answer["patch_scale"] == info.patch_scale
    assert answer["max_error"].keys() == {"onnxruntime", "opencv"}
    assert all(error < 1e-4 for error in answer["max_error"].values())
    assert out.read_bytes() != b"was here before"


@pytest.mark.slow
def test_untrained_networks_and_wrong_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", "tfeat", "--untrained", "--out", str(tmp_path / "net.onnx")]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("tfeat", "onnxruntime", "opencv", "float32 in [0, 1]", "12 times as wide"))
    assert cli.main(["export", "hardnett", "--out", str(tmp_path / "no.onnx")]) == 2
    assert "did you mean hardnet" in capsys.readouterr().err
    assert not (tmp_path / "no.onnx").exists()
