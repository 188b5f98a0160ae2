"""Embeddings of a folder of images: the same as of each image, complete files, unreadable images named."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from patchprint import cli, networks
from patchprint.features.image_model import embed_folder, load_image_model
from patchprint.networks import weights
from support.image_sets import images_of_class


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embeddings") / "photos"
    (folder / "more").mkdir(parents=True)
    for number in range(18):
        (image,) = images_of_class(number, 1, (40, 56))
        cv2.imwrite(str(folder / ("more" if number % 2 else "") / f"{number:02}.png"), image)
    return folder


@pytest.fixture(scope="module")
def model(photos: Path) -> str:
    torch.manual_seed(0)
    file = photos.parent / "birds.safetensors"
    weights.save(networks.create("embedding", backbone="resnet18-narrow", dim=12, input_size=32), file)
    return str(file)


def test_a_folder_is_its_images(photos: Path, model: str) -> None:
    used = load_image_model(model)
    found = embed_folder(photos, used)
    assert found.names[:2] == ["00.png", "02.png"]
    assert found.names[-1] == "more/17.png"
    torch.testing.assert_close(found.descriptors, used.describe_images([photos / name for name in found.names]))
    assert found.model == used.id


def test_unreadable_images_are_named_and_left_out(model: str, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "good.png"), images_of_class(0, 1)[0])
    (tmp_path / "bad.png").write_bytes(b"nothing")
    said: list[str] = []
    assert embed_folder(tmp_path, model, report=said.append).names == ["good.png"]
    assert "bad.png" in said[0]
    (tmp_path / "good.png").unlink()
    with pytest.raises(ValueError, match="none of the 1 images"):
        embed_folder(tmp_path, model, report=said.append)
    with pytest.raises(ValueError, match="describes patches"):
        embed_folder(tmp_path, "sift")


def test_the_command_writes_one_file(
    photos: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["describe", str(photos), "--model", model, "--device", "cpu"]
    assert cli.main([*command, "--out", str(tmp_path / "a.npz"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["images"], result["dim"]) == (18, 12)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as written:
        found = embed_folder(photos, model)
        assert written["names"].tolist() == found.names and written["model"].tolist() == [*vars(found.model).values()]
        assert np.array_equal(written["descriptors"], found.descriptors)
    assert cli.main([*command, "--out", str(tmp_path / "a.npz")]) != 0
    assert "--force" in capsys.readouterr().err
    for wrong in (["--out", str(tmp_path / "folder")], ["--out", str(tmp_path / "f.npz"), "--format", "hloc"]):
        assert cli.main([*command, *wrong]) != 0
        assert "ends in .npz" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["a.npz"]
