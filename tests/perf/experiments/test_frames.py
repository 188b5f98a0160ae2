"""Judging frames of keypoints."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from patchprint.geometry import rotation, transport
from patchprint.types import Keypoints
from perf.experiments.frames import degrees_apart


def test_frames_that_a_homography_takes_to_each_other_agree() -> None:
    generator = torch.Generator().manual_seed(0)
    a = Keypoints(100 * torch.rand(8, 2, generator=generator), torch.full((8,), 2.0), torch.arange(8.0))
    homography = np.eye(3)
    homography[:2, :2] = 1.2 * rotation(0.7)
    b = transport(a, homography)
    assert degrees_apart(a, b, homography).max() < 1e-2
    turned = dataclasses.replace(b, angle=b.angle + np.radians(30))
    assert np.allclose(degrees_apart(a, turned, homography), 30, atol=1e-2)
    both = Keypoints.concatenate([turned, b])
    assert degrees_apart(a, both, homography).max() < 1e-2
    elsewhere = dataclasses.replace(b, scale=3 * b.scale)
    assert len(degrees_apart(a, elsewhere, homography)) == 0
