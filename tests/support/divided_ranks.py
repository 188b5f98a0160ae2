"""One process of the test of divided photos; a module of its own, because other processes import it by name."""

from pathlib import Path

import torch

from patchprint.common import distributed
from patchprint.data.tracks import TrackStore
from support.synthetic_tracks import all_views

SIZE = 16
WANTED = (10, 0, 3)  # points that each process asks for, in all of their views


def sample(folder: Path) -> None:
    """Save what this process gets, from photos in memory and from photos that are decoded when they are needed."""
    rank = distributed.rank()
    points, views = all_views(WANTED[rank])
    warp = torch.eye(2, 3).expand(*views.shape, 2, 3) * 1.5
    result = {}
    for name, budget in (("resident", None), ("streamed", 1e-5)):
        store = TrackStore.open(folder / "store", max_resident_gb=budget, divided=True)
        result[name] = store.sample(points, views, SIZE, warp)
        assert store.is_divided
        assert not store.is_resident
        result[f"{name} photos"] = len(store.images.held)  # type: ignore[attr-defined]
    torch.save(result, folder / f"{rank}.pt")
