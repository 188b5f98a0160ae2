"""The folder for the Hugging Face Hub: the weights as they are, and a card that its own reader reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import patchprint
from patchprint import cli
from patchprint.networks import weights
from patchprint.networks.hub_folder import write_folder
from support.network_patches import trained_looking


def header(folder: Path) -> dict:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((folder / "README.md").read_text("utf-8").split("---\n")[1])


def test_the_folder_holds_weights_and_says_license_and_data(tmp_path: Path) -> None:
    for name in weights.weight_names():
        info = write_folder(name, tmp_path / name)
        card = (tmp_path / name / "README.md").read_text("utf-8")
        assert header(tmp_path / name)["license"] == "apache-2.0"
        assert info.training.data in card and info.sha256 in card and "mAP" in card
        assert json.loads((tmp_path / name / "config.json").read_text("utf-8"))["sha256"] == info.sha256
        found = sorted(path.name for path in (tmp_path / name).iterdir() if not path.name.startswith("."))
        assert found == ["README.md", "config.json", "model.safetensors"]
    patches = torch.rand(2, 1, 48, 48)
    mine, theirs = (
        patchprint.load(model, engine="float32")
        for model in (tmp_path / "patchprint.tiny/model.safetensors", "patchprint.tiny")
    )
    assert torch.equal(mine.describe_patches(patches), theirs.describe_patches(patches)) and mine.id == theirs.id


def test_weights_of_a_user_claim_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights.save(trained_looking("tfeat", width=4), tmp_path / "mine.safetensors")
    arguments = ["export", str(tmp_path / "mine.safetensors"), "--hub", "--out", str(tmp_path / "mine")]
    assert cli.main(arguments) == 0 and "without a license" in capsys.readouterr().out
    assert header(tmp_path / "mine")["license"] == "unknown"
    assert "| training data | not stated |" in (tmp_path / "mine" / "README.md").read_text("utf-8")
    assert cli.main(arguments) == 2 and cli.main([*arguments, "--force"]) == 0
    assert cli.main([*arguments[:3], "--out", str(tmp_path / "a.onnx")]) == 2
    assert "--hub writes a folder" in capsys.readouterr().err


def test_the_hubs_own_reader_takes_the_card(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    write_folder("patchprint", tmp_path / "patchprint")
    card = hub.ModelCard.load(tmp_path / "patchprint" / "README.md")
    assert (card.data.license, card.data.library_name) == ("apache-2.0", "patchprint")
    assert card.data.pipeline_tag == "image-feature-extraction" and "local-features" in card.data.tags
