"""Learning frames from tracks."""

from __future__ import annotations

import math

import pytest
import torch
from skimage import data

from patchprint.networks.weights import load_network
from patchprint.patches import TrackStore
from patchprint.patches.sources.homographies import make_tracks
from perf.release import train_frames


@pytest.fixture(scope="module")
def source() -> TrackStore:
    images, tracks = make_tracks([data.camera()[::2, ::2].copy()], 2, seed=0, max_keypoints=300)
    return TrackStore.from_images(images, tracks, patch_scale=32.0)


def test_angles_agree_after_a_few_steps(source: TrackStore) -> None:
    describer = load_network("sdgmnet.tiny").requires_grad_(False)
    points = torch.nonzero(source.num_views >= 2)[:, 0]
    views = torch.tensor([[0, 1]]).expand(len(points), 2)
    jitter = train_frames.jitter(torch.tensor(7), views)

    def disagreement(network: train_frames.FrameNetwork) -> float:
        with torch.no_grad():
            frames = train_frames.corrected(network.eval(), source, points, views, jitter)
        return float((1 - torch.cos(train_frames.angle_between(frames))).mean())

    before = disagreement(train_frames.train(source, describer, steps=1, batch=8, agreement=1.0, seed=0))
    after = disagreement(train_frames.train(source, describer, steps=25, batch=64, agreement=1.0, seed=1))
    assert after < 0.5 * before


def test_held_out_figures_are_parts(source: TrackStore) -> None:
    describer = load_network("sdgmnet.tiny")
    found = train_frames.judge(train_frames.FrameNetwork(), describer, source, seed=0)
    assert all(0 <= value <= 1 for value in found.values())
    assert found["tracks, found"] > found["jitter, found"]


def test_the_angle_between_frames_is_that_of_the_turn() -> None:
    turns = torch.tensor([[0.2, 0.5], [3.0, -3.0]])
    cos, sin = turns.cos(), turns.sin()
    frames = torch.stack([torch.stack([cos, -sin, 0 * cos], -1), torch.stack([sin, cos, 0 * cos], -1)], -2)
    between = train_frames.angle_between(frames)
    assert torch.allclose(between.cos(), torch.tensor([0.3, 2 * math.pi - 6.0]).cos(), atol=1e-5)


def test_a_negative_has_no_gradient() -> None:
    first = torch.nn.functional.normalize(torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    second = first.roll(1, 0).clone().requires_grad_()  # each has its own far away, and another one's in the same place
    loss = train_frames.triplet_loss(first, second)
    (gradient,) = torch.autograd.grad(loss, second)
    assert torch.allclose(gradient, (second - first) / (second - first).norm(dim=1, keepdim=True) / 6, atol=1e-4)
