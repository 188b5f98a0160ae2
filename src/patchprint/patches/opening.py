"""Opening stores by folder, and several of them as one source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from patchprint.patches import manifest
from patchprint.patches.source import PatchSource
from patchprint.patches.store import PatchStore
from patchprint.patches.tracks import TrackStore


def open_source(
    folder: str | Path | Sequence[str | Path], device: torch.device | str = "cpu", patch_scale: float | None = None
) -> TrackStore | PatchStore | ConcatSource:
    """The store in ``folder``, or several (a list, or names with commas between them) as one source.

    ``patch_scale`` sets the side of patches that are cut out of photos, in sigma; stored patches have theirs.
    """
    folders = (
        [*map(str, folder)] if isinstance(folder, Sequence) and not isinstance(folder, str) else str(folder).split(",")
    )
    kinds = {manifest.read(name)["kind"] for name in folders}
    if kinds == {"tracks"}:
        return TrackStore.open(folders, device, patch_scale)
    if len(folders) == 1:
        return PatchStore.open(folders[0], device)
    return ConcatSource([open_source(name, device, patch_scale) for name in folders])


class ConcatSource:
    """Several sources as one: their points and scenes follow each other.

    Every source is asked for every patch and the right answer is kept, which costs as many times the work as there are
    sources and needs no host synchronisation. Several folders of photos are opened as one TrackStore instead.
    """

    def __init__(self, sources: Sequence[PatchSource]) -> None:
        self.sources = list(sources)
        scenes = [int(source.scene.max()) + 1 if source.num_points else 0 for source in self.sources]
        first_scene = [sum(scenes[:i]) for i in range(len(scenes))]
        self._scene = torch.cat([s.scene + first for s, first in zip(self.sources, first_scene, strict=True)])
        self._num_views = torch.cat([source.num_views for source in self.sources])

    @property
    def device(self) -> torch.device:
        return self._scene.device

    @property
    def is_resident(self) -> bool:
        """Whether ``sample`` never touches the host, so that it may be compiled and recorded."""
        return all(getattr(source, "is_resident", False) for source in self.sources)

    @property
    def num_points(self) -> int:
        return len(self._scene)

    @property
    def num_views(self) -> Tensor:
        return self._num_views

    @property
    def scene(self) -> Tensor:
        return self._scene

    def sample(self, points: Tensor, views: Tensor, size: int, warp: Tensor | None = None) -> Tensor:
        """See ``PatchSource.sample``."""
        patches = torch.zeros(*views.shape, 1, size, size, device=self.device)
        first = 0
        for source in self.sources:
            mine = (points >= first) & (points < first + source.num_points)
            own_views = views * mine[:, None]
            cut = source.sample(torch.where(mine, points - first, 0), own_views, size, warp)
            patches = torch.where(mine[:, None, None, None, None], cut, patches)
            first += source.num_points
        return patches

    def split(self, part: str) -> ConcatSource:
        """The points for "train" or for "val" of every source."""
        return ConcatSource([source.split(part) for source in self.sources])  # type: ignore[attr-defined]

    def to(self, device: torch.device | str) -> ConcatSource:
        return ConcatSource([source.to(device) for source in self.sources])
