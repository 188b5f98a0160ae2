"""Small photos and tracks made by the tests: a textured plane seen under known similarities."""

import numpy as np

from patchprint.patches.tracks import Tracks


def texture(height=160, width=200, seed=0):
    """A smooth random picture, uint8."""
    coarse = np.random.default_rng(seed).random((height // 8 + 3, width // 8 + 3))
    fine = np.kron(coarse, np.ones((8, 8)))[: height + 16, : width + 16]
    kernel = np.ones(9) / 9
    for axis in (0, 1):
        fine = np.apply_along_axis(lambda line: np.convolve(line, kernel, mode="same"), axis, fine)
    return (fine[8 : 8 + height, 8 : 8 + width] * 255).astype(np.uint8)


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
