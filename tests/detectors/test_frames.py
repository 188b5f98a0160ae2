"""Frames of keypoints by a network, here one with random weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from skimage import data

from patchprint.detectors import _frames, check_detector, detect, with_learned_frames
from patchprint.detectors._frames import FrameNetwork
from patchprint.errors import UserError
from patchprint.features import extract


@pytest.fixture
def image() -> np.ndarray:
    return data.camera()[::2, ::2].copy()


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrameNetwork]:
    """Random weights, in the file where the shipped ones would be."""
    torch.manual_seed(0)
    made = FrameNetwork().eval()
    torch.nn.init.normal_(made.shape.weight, std=0.05)
    save_file(made.state_dict(), tmp_path / "frames.safetensors")
    monkeypatch.setattr(_frames, "WEIGHTS", tmp_path / "frames.safetensors")
    _frames._network.cache_clear()
    yield made
    _frames._network.cache_clear()


def test_the_turn_is_a_rotation_and_the_stretch_keeps_area_and_vertical(network: FrameNetwork) -> None:
    with torch.no_grad():
        turn, stretch = network(torch.rand(20, 1, 32, 32))
    assert torch.allclose(turn @ turn.mT, torch.eye(2).expand(20, 2, 2), atol=1e-5)
    assert torch.allclose(torch.linalg.det(turn), torch.ones(20), atol=1e-5)
    assert torch.allclose(torch.linalg.det(stretch), torch.ones(20), atol=1e-5)
    assert (stretch[:, 0, 1] == 0).all()
    assert stretch[:, 1, 0].abs().max() > 1e-3


def test_it_starts_without_a_stretch() -> None:
    _, stretch = FrameNetwork()(torch.rand(4, 1, 32, 32))
    assert torch.equal(stretch, torch.eye(2).expand(4, 2, 2))


def test_light_plays_no_part(network: FrameNetwork) -> None:
    patches = torch.rand(5, 1, 32, 32)
    with torch.no_grad():
        turn, _ = network(patches)
        brighter, _ = network(0.5 * patches + 0.3)
    assert torch.allclose(turn, brighter, atol=0.2)


def test_only_frames_change(image: np.ndarray, network: FrameNetwork) -> None:
    found = detect(image, max_keypoints=100)
    framed = with_learned_frames(image, found)
    assert torch.equal(framed.xy, found.xy)
    assert found.score is not None
    assert framed.score is not None
    assert torch.equal(framed.score, found.score)
    assert torch.allclose(framed.scale, found.scale, rtol=1e-3)
    assert not torch.allclose(framed.frames(), found.frames(), atol=0.1)
    alone = with_learned_frames(image, found[7:8])
    assert torch.allclose(alone.frames()[0], framed.frames()[7], atol=1e-3)
    left = with_learned_frames(image, found, turned=False, stretched=False)
    assert torch.allclose(left.frames(), found.frames())
    assert len(with_learned_frames(image, found[:0])) == 0


def test_a_place_has_one_learned_frame(image: np.ndarray, network: FrameNetwork) -> None:
    found = detect(image, max_keypoints=None, frames="learned")
    assert len(found) == len(found.unique_places())
    assert len(found) < len(detect(image, max_keypoints=None))
    assert found.affine is not None


def test_upright_ones_are_stretched_but_stay_upright(image: np.ndarray, network: FrameNetwork) -> None:
    found = detect(image, max_keypoints=50, upright=True, frames="learned")
    assert found.affine is not None
    assert (found.affine[:, 0, 1].abs() < 1e-5).all()
    assert (found.affine[:, 1, 1] > 0).all()


def test_given_keypoints_get_learned_frames_too(image: np.ndarray, network: FrameNetwork) -> None:
    given = detect(image, max_keypoints=20)
    features = extract(image, "sdgmnet.tiny", given, frames="learned")
    assert torch.allclose(features.keypoints.frames(), with_learned_frames(image, given).frames())


def test_frames_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, image: np.ndarray) -> None:
    with pytest.raises(UserError, match="known are detector, learned"):
        detect(image, frames="affine")  # type: ignore[arg-type]
    monkeypatch.setattr(_frames, "WEIGHTS", tmp_path / "none.safetensors")
    with pytest.raises(UserError, match="need weights"):
        check_detector("dog", 10, "learned")
