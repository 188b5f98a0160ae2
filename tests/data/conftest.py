"""Small images with tracks, and patches, for tests of patches."""

import numpy as np
import pytest

from support.synthetic_tracks import plane_tracks


@pytest.fixture
def scene():
    """Images and tracks of a plane."""
    return plane_tracks()


@pytest.fixture
def patches():
    """Thirty patches of noise."""
    return np.random.default_rng(0).integers(0, 256, (30, 64, 64), dtype=np.uint8)
