"""Further views of the points of a model, found in the images."""

import numpy as np
import torch

from patchprint.data import open_source
from patchprint.data.builders import colmap_tracks
from support.small_sfm import wall_positions


def test_densify_finds_hidden_views_where_they_must_be(model, tmp_path):
    root, shifts, wall_xy, found_in = model
    facts = colmap_tracks.build(root, tmp_path / "out", densify=True)
    store = open_source(tmp_path / "out")
    hidden = int((found_in - 2).sum())
    assert facts["added_views"] == len(store.tracks.point) - 2 * len(wall_xy)
    assert facts["added_views"] > 0.6 * hidden, (facts, hidden)
    away = np.linalg.norm(wall_positions(store, shifts) - wall_xy[store.tracks.point], axis=1)
    assert np.mean(away <= 2.0) >= 0.99
    patches = store.sample(
        torch.arange(store.num_points), torch.stack([torch.zeros_like(store.num_views), store.num_views - 1], 1), 32
    )
    assert float((patches[:, 0] - patches[:, 1]).abs().mean()) < 0.05


def test_building_twice_gives_the_same_bytes(model, tmp_path):
    root, *_ = model
    for name in ("a", "b"):
        colmap_tracks.build(root, tmp_path / name, densify=True)
    assert (tmp_path / "a" / "manifest.json").read_bytes() == (tmp_path / "b" / "manifest.json").read_bytes()
