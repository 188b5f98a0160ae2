"""The weights that come with the package: small, licensed, sound, and better than RootSIFT without a network connection."""

import socket
import zlib

import pytest
import torch

import patchprint
from patchprint.benchmarks import bundled
from patchprint.features.model import DEFAULT_MODEL
from patchprint.networks import weights

NAMES = [info.name for info in weights.list_weights()]


def test_all_leave_room_for_the_code_in_a_wheel_of_24_mb() -> None:
    assert sum(len(zlib.compress(file.read_bytes())) for file in weights.WEIGHTS_FOLDER.glob("*")) < 23e6
    assert DEFAULT_MODEL in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_card_says_license_images_recipe_and_ratio(name: str) -> None:
    info = weights.load_network(name).info
    assert info.name == name
    assert info.license == "Apache-2.0"
    assert "photos" in info.training.data
    assert info.training.config["steps"] >= info.training.step > 0
    assert not info.provisional
    assert info.ratio is not None and 0.6 < info.ratio < 1


@pytest.mark.parametrize("name", NAMES)
def test_descriptors_forget_brightness_and_contrast(name: str) -> None:
    network = weights.load_network(name)
    size = network.input_size
    patches = torch.rand(16, 1, size, size, generator=torch.Generator().manual_seed(0)) * 0.5
    brighter = (
        0.2 if network.cancels_brightness else 0.0
    )  # HyNet and SDGMNet take the patch as it is, as in their papers
    plain, relit = network.describe(patches), network.describe(patches * 1.3 + brighter)
    if network.kind == "binary":
        changed = sum(bin(int(value)).count("1") for value in (plain ^ relit).flatten())
        assert changed <= 0.01 * 8 * plain.numel()
    else:
        assert torch.allclose(plain.norm(dim=1), torch.ones(16), atol=1e-5)
        assert (plain - relit).norm(dim=1).max() < 1e-3


@pytest.mark.slow
def test_the_default_matches_better_than_rootsift_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    pair = bundled.stereo_pair(bundled.Settings(keypoints=400))
    ours, theirs = (bundled.matching(patchprint.load(model), pair)["ap"] for model in ("patchprint", "rootsift"))
    assert ours > theirs
