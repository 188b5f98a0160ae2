"""Torr's criterion takes the homography for flat scenes and turning cameras, the fundamental matrix for all others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from patchprint.matching.two_view_geometry import gric, verify
from support.two_cameras import SCENES, seen_by_two_cameras


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("outliers", [0.0, 0.4])
@pytest.mark.parametrize("scene", SCENES)
def test_the_geometry_is_that_of_the_scene(scene: str, outliers: float, seed: int) -> None:
    a, b, matches = seen_by_two_cameras(scene, 200, outliers, noise=0.6, seed=seed)
    found = verify(a, b, matches)
    assert found.geometry == ("fundamental" if scene == "general" else "homography")
    assert found.verdict is not None and found.verdict.answer == "same"
    assert (found.num_inliers or 0) > 0.9 * 200 * (1 - outliers)


def test_a_relief_on_a_plane_is_no_plane() -> None:
    """A homography explains most of it, more than the share of 0.7 that once decided."""
    a, b, matches = seen_by_two_cameras("relief", 300, 0.0, noise=0.5, seed=0)
    share = (verify(a, b, matches, "homography").num_inliers or 0) / (
        verify(a, b, matches, "fundamental").num_inliers or 1
    )
    assert 0.7 < share < 0.9
    assert verify(a, b, matches).geometry == "fundamental"


def test_the_criterion_is_torrs_formula() -> None:
    errors = np.array([0.0, 1.0, 100.0])
    # noise 2: squares 0, 1/4, and the limit 2 (4 - d); n = 3, r = 4.
    flat = 0.25 + 4 + 3 * 2 * math.log(4) + 8 * math.log(12)
    general = 0.25 + 2 + 3 * 3 * math.log(4) + 7 * math.log(12)
    assert gric(errors, "homography", 2.0) == pytest.approx(flat)
    assert gric(errors, "fundamental", 2.0) == pytest.approx(general)
