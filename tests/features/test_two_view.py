"""Geometric verification finds the true matches and their model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from patchprint.features import match, verify
from support.made_features import descriptors, features


@pytest.mark.parametrize("kind", ["homography", "fundamental", "auto"])
def test_verify_finds_the_true_matches(kind: str) -> None:
    rng = np.random.default_rng(0)
    xy = rng.uniform(0, 500, (200, 2))
    homography = np.array([[0.9, 0.2, 10.0], [-0.1, 1.1, 5.0], [1e-4, 2e-4, 1.0]])
    moved = np.c_[xy, np.ones(200)] @ homography.T
    moved = moved[:, :2] / moved[:, 2:]
    moved[150:] = rng.uniform(0, 500, (50, 2))
    same = descriptors(200)
    a, b = features(same, torch.from_numpy(xy)), features(same, torch.from_numpy(moved))
    checked = verify(a, b, match(a, b, "mutual"), kind)  # type: ignore[arg-type]
    assert checked.inliers is not None
    assert checked.inliers[:150].float().mean() > 0.97
    if kind == "homography":
        assert checked.inliers[150:].sum() < 3
        model = checked.model.numpy() / checked.model.numpy()[2, 2]  # type: ignore[union-attr]
        assert np.allclose(model, homography, rtol=0.02, atol=0.02)
    if kind == "auto":
        assert checked.geometry == "homography"
    assert checked.verdict is not None and checked.verdict.answer == "same"
    assert torch.equal(verify(a, b, match(a, b, "mutual"), kind).inliers, checked.inliers)  # type: ignore[arg-type]
