"""Small photos and tracks made by the tests: a textured plane seen under known similarities."""

import numpy as np
import torch

from patchprint.data.tracks import Tracks
from support.known_images import texture


def plane_tracks(points=60, count=4, seed=0):
    """The same picture as every photo, shifted by whole pixels, with exact tracks. Returns images, tracks."""
    rng = np.random.default_rng(seed)
    world = texture(220, 260, seed)
    shifts = rng.integers(0, 40, (count, 2))
    images = [np.ascontiguousarray(world[y : y + 160, x : x + 200]) for x, y in shifts]
    xy = rng.uniform((60, 60), (180, 140), (points, 2))
    scale, angle = rng.uniform(1, 2, points), rng.uniform(-3, 3, points)
    point, image = np.divmod(np.arange(points * count), count)
    tracks = Tracks.from_observations(
        image=image, xy=xy[point] - shifts[image], scale=scale[point], angle=angle[point], point=point
    )
    return images, tracks


def all_views(count=10):
    """Indices of the first points, and of their four views."""
    return torch.arange(count), torch.arange(4).expand(count, 4)
