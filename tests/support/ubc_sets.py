"""Stores like those of the UBC sets: one scene, and the official list of pairs."""

import numpy as np

from patchprint.data import PatchStore
from patchprint.data.patch_pairs import OFFICIAL_PAIRS
from support.known_images import texture


def write_ubc(folder, points=30, views=3, pairs=60, seed=0):
    """Noisy views of ``points`` textures; a list of ``pairs``, half of them matching."""
    random = np.random.default_rng(seed)
    clean = np.stack([texture(32, 32, 1000 * seed + number) for number in range(points)])
    noisy = clean[:, None] + random.normal(0, 60, (points, views, 32, 32))
    point = np.repeat(np.arange(points), views)
    first = random.integers(0, points, pairs) * views
    is_match = np.arange(pairs) % 2 == 0
    second = np.where(is_match, first + 1, (first + views) % len(point))
    rows = np.stack([first, second, is_match], 1)
    patches = np.clip(noisy, 0, 255).astype(np.uint8).reshape(-1, 32, 32)
    PatchStore.write(
        folder, [patches], point, np.zeros(len(point), int), [folder.name], 12.0, pairs={OFFICIAL_PAIRS: rows}
    )
