"""Open one or several stores as one patch source."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.data import manifest
from patchprint.data.image_store import ImageStore
from patchprint.data.patch_source import ArraySource, PatchSource
from patchprint.data.patch_store import PatchStore
from patchprint.data.tracks import TrackStore


def open_source(
    folder: str | Path | Sequence[str | Path],
    device: torch.device | str = "cpu",
    *,
    patch_scale: float | None = None,
    divided: bool = False,
) -> PatchSource:
    """Open the store in ``folder``, or several as one source.

    Args:
        folder: one store, or several.
        device: where patches are sampled.
        patch_scale: side of patches that are cut out of images, in sigma; by default that of the stored patches beside them,
            else what the store was built for. Stored patches of different scales are joined only where it is given.
        divided: each of several processes holds its share of the images (``TrackStore.open``).
    """
    folders = [Path(folder)] if isinstance(folder, str | Path) else [Path(name) for name in folder]
    facts = [manifest.read(name) for name in folders]
    kinds = {fact["kind"] for fact in facts}
    if divided and kinds != {"tracks"}:
        whole = next(name for name, fact in zip(folders, facts, strict=True) if fact["kind"] != "tracks")
        raise UserError(f"--divide-photos divides images with tracks, and {whole} holds none; leave it out")
    if kinds == {"tracks"}:
        return TrackStore.open(folders, device, patch_scale, divided=divided)
    if len(folders) == 1:
        kind: type[ArraySource] = ImageStore if ImageStore.kind in kinds else PatchStore
        return kind.open(folders[0], device)
    if ImageStore.kind in kinds:
        raise UserError("a store of whole images is learned from alone; give one --data")
    stored = {float(fact["patch_scale"]) for fact in facts if fact["kind"] == "patches"}
    if patch_scale is None and len(stored) > 1:
        scales = " and ".join(f"{scale:g}" for scale in sorted(stored))
        raise UserError(f"the stores hold patches of {scales} sigma; give --patch-scale for the mix")
    cut_at = stored.pop() if patch_scale is None else patch_scale
    return ConcatSource([open_source(name, device, patch_scale=cut_at) for name in folders], cut_at)


class ConcatSource(PatchSource):
    """Concatenation of several sources: points and scenes are numbered consecutively.

    Every source samples every patch and the right one is kept: more work, but no host synchronization. Several stores of
    tracks are opened as one TrackStore instead.
    """

    _of_points = (*PatchSource._of_points, "_owner", "_local")

    def __init__(self, sources: Sequence[PatchSource], patch_scale: float) -> None:
        self.sources = list(sources)
        scenes = [int(source.scene.max()) + 1 if source.num_points else 0 for source in self.sources]
        first_scene = [sum(scenes[:i]) for i in range(len(scenes))]
        parts = [source._part for source in self.sources]
        super().__init__(
            torch.cat([source.num_views for source in self.sources]),
            torch.cat([s.scene + first for s, first in zip(self.sources, first_scene, strict=True)]),
            None if any(part is None for part in parts) else torch.cat([part for part in parts if part is not None]),
            patch_scale,
        )
        sizes = torch.tensor([source.num_points for source in self.sources], device=self.device)
        self._owner = torch.repeat_interleave(torch.arange(len(sizes), device=self.device), sizes)
        self._local = torch.cat([torch.arange(source.num_points, device=self.device) for source in self.sources])

    @property
    def is_resident(self) -> bool:
        return all(source.is_resident for source in self.sources)

    def _local_views(self, points: Tensor, views: Tensor) -> Iterator[tuple[PatchSource, Tensor, Tensor, Tensor]]:
        """Each source, which of ``points`` are its own (P,), their numbers in it (P,) and views (P, K); 0 for the others."""
        for number, source in enumerate(self.sources):
            mine = self._owner[points] == number
            yield source, mine, torch.where(mine, self._local[points], 0), views * mine[:, None]

    def observation(self, points: Tensor, views: Tensor) -> Tensor:
        rows, first = torch.zeros_like(views), 0
        for source, mine, local, own_views in self._local_views(points, views):
            rows = torch.where(mine[:, None], first + source.observation(local, own_views), rows)
            first += int(source.num_views.sum())
        return rows

    def sample(self, points: Tensor, views: Tensor, size: int, warp: Tensor | None = None) -> Tensor:
        patches = torch.zeros(*views.shape, 1, size, size, device=self.device)
        for source, mine, local, own_views in self._local_views(points, views):
            patches = torch.where(mine[:, None, None, None, None], source.sample(local, own_views, size, warp), patches)
        return patches

    def to(self, device: torch.device | str) -> Self:
        moved = super().to(device)
        moved.sources = [source.to(device) for source in self.sources]
        return moved
