"""Store of patches: one memory-mapped uint8 array, the point of each patch, the scene of each point."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common import files
from patchprint.common.errors import UserError, require
from patchprint.data import manifest, splits
from patchprint.data.patch_source import ArraySource, MinedLabels, warped_grid


class PatchStore(ArraySource):
    """Patches of one size, resident on the device where they fit, else memory-mapped.

    Shape:
        patches (M, S, S) uint8 in the order of the original files; point_id (N,) and pairs keep the original numbers:
        pairs[name] (L, 3) int64 are patch a, patch b, and 1 where both show the same point.
    """

    kind = "patches"

    def __init__(self, folder: Path, facts: dict[str, Any], budget: int) -> None:
        super().__init__(folder, facts, budget)
        self.patches = self._array
        self.scene_names: list[str] = facts["scenes"]
        self.point_id = manifest.load(folder, "point_id", "iu", (self.num_points,), -(2**62), 2**62)
        self.scene = self._integers("scene", (self.num_points,), 0, len(self.scene_names))
        if (folder / "cluster.npy").exists():
            self.mined = MinedLabels.load(folder, len(self.patches), len(self.scene_names))

    @staticmethod
    def write(
        folder: str | Path,
        patches: Iterable[np.ndarray],
        point: np.ndarray,
        scene: np.ndarray,
        scene_names: Sequence[str],
        patch_scale: float,
        *,
        pairs: Mapping[str, np.ndarray] | None = None,
        part: np.ndarray | None = None,
        mine_labels: bool = False,
        facts: dict[str, Any] | None = None,
        force: bool = False,
    ) -> None:
        """Write blocks of patches (B, S, S) uint8 one after the other, so that memory stays bounded.

        Shape:
            point (M,) original point number of each patch; scene (M,) index into ``scene_names`` of each patch;
            patch_scale: side of the patches in units of sigma;
            part (N,) split of the points in the order of their numbers; without it whole scenes are held out;
            mine_labels adds DOAP's label mining, for which the patches must be ordered by scene, 0, 1, 2 ...
        """
        order = np.argsort(point, kind="stable")
        point_id, first, num_views = np.unique(point[order], return_index=True, return_counts=True)
        scene_of_point = scene[order][first].astype(np.int32)
        if not np.array_equal(np.repeat(scene_of_point, num_views), scene[order]):
            raise UserError(f"{folder}: a point number occurs in two scenes; number the points of each scene apart")
        if mine_labels and not np.array_equal(
            np.unique(scene, return_index=True)[1], np.flatnonzero(np.diff(scene, prepend=-1))
        ):
            raise UserError(f"{folder}: label mining needs patches that are ordered by scene")
        part = splits.by_scene(scene_of_point) if part is None else part
        with files.atomic_folder(folder, manifest.MADE_BY, force) as temporary:
            size, _ = manifest.save_blocks(temporary, PatchStore.kind, patches, len(point))
            arrays = {
                "point_id": point_id,
                "num_views": num_views,
                "order": order,
                "scene": scene_of_point,
                "part": part,
            }
            arrays |= {f"pairs-{name}": rows.astype(np.int64) for name, rows in (pairs or {}).items()}
            manifest.save(temporary, arrays)
            if mine_labels:
                written = manifest.load(temporary, PatchStore.kind, "u", (len(point), size, size))
                _mine_labels(np.split(written, np.flatnonzero(np.diff(scene)) + 1)).save(temporary)
            counts = {"points": len(point_id), "views": len(point), "size": size}
            named = {"scenes": list(scene_names), "patch_scale": patch_scale, **splits.counts(part)}
            manifest.write(
                temporary, PatchStore.kind, {**counts, **named, "pairs": sorted(pairs or {}), **(facts or {})}
            )

    def pairs(self, name: str) -> np.ndarray:
        """Return a pair list of the original set, (L, 3): patch a, patch b, same point."""
        if name not in self.facts["pairs"]:
            raise UserError(f"{self.folder} has no pair list {name!r}; it has {', '.join(self.facts['pairs'])}")
        return np.array(manifest.load(self.folder, f"pairs-{name}", "i", (None, 3), 0, len(self.patches)))

    def sample(self, points: Tensor, views: Tensor, size: int, warp: Tensor | None = None) -> Tensor:
        """See ``PatchSource.sample``; beyond its border a patch repeats its last pixels."""
        patches = self._pixels(self.observation(points, views).reshape(-1))[:, None]
        if warp is None and patches.shape[-1] == 2 * size:
            patches = F.avg_pool2d(patches, 2)
        elif warp is not None or patches.shape[-1] != size:
            grid = warped_grid(warp, len(patches), size, self.device)
            patches = F.grid_sample(patches, grid, mode="bilinear", padding_mode="border", align_corners=False)
        return patches.reshape(*views.shape, 1, size, size)


def _mine_labels(patches: Iterable[np.ndarray], clusters: int = 100, percentile: float = 20.0) -> MinedLabels:
    """Find patches of a sequence that surely show different points (DOAP's label mining).

    HPatches' sequences show planes with repeated texture, and their points are numbered apart even where two detections lie
    on the same spot. So patches of one sequence count as negatives of each other only where their clusters are far apart:
    K-means on HOG and pixels; a percentile of the distances between centers is the threshold.

    Args:
        patches: the patches (B, S, S) uint8 of one sequence after the other.
    """
    cluster = require("sklearn.cluster", extra="sfm")
    labels, distractors = [], []
    for block in patches:
        feature = _mining_features(torch.from_numpy(np.array(block)))
        fitted = cluster.KMeans(min(clusters, len(feature)), n_init=1, random_state=0).fit(feature.numpy())
        centers, label = torch.from_numpy(fitted.cluster_centers_), torch.from_numpy(fitted.labels_)
        distance = torch.cdist(centers, centers)
        upper = torch.triu_indices(len(centers), len(centers), offset=1)
        between = distance[upper[0], upper[1]]
        threshold = torch.quantile(between, percentile / 100.0) if len(between) else torch.tensor(torch.inf)
        table = torch.zeros(clusters, clusters, dtype=torch.bool)
        table[: len(centers), : len(centers)] = distance > threshold
        labels.append(label.to(torch.int16))
        distractors.append(table)
    return MinedLabels(torch.cat(labels), torch.stack(distractors))


def _mining_features(patches: Tensor) -> Tensor:
    """Return HOG of 31 channels on 8x8 cells of the 64x64 patch, and its pixels at 16x16: (M, S, S) uint8 -> (M, 2240)."""
    rows = []
    for block in patches.split(4096):
        pixels = block[:, None].float() / 255.0
        large, small = (
            F.interpolate(pixels, (side, side), mode="bilinear", align_corners=False, antialias=True)
            for side in (64, 16)
        )
        rows.append(torch.cat([_hog31(large[:, 0]).flatten(1), small.flatten(1)], 1))
    return torch.cat(rows)


def _hog31(images: Tensor, cell: int = 8) -> Tensor:
    """Return the HOG of deformable part models: 18 signed, 9 unsigned orientations and 4 texture sums per cell.

    Each cell is normalized by the energy of its four 2x2 neighborhoods, clipped at 0.2, as Felzenszwalb et al. do.
    Gradients vote for their nearest orientation and, bilinearly, for the four nearest cells.

    Shape:
        images (N, S, S) float -> (N, 31, S / cell, S / cell)
    """
    padded = F.pad(images[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
    dx, dy = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2], padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    orientation = (torch.atan2(dy, dx) * (18 / (2 * torch.pi))).round().long() % 18
    votes = torch.zeros(len(images), 18, *images.shape[1:]).scatter_(
        1, orientation[:, None], torch.hypot(dx, dy)[:, None]
    )
    ramp = 1.0 - (torch.arange(2 * cell) - cell + 0.5).abs() / cell
    kernel = (ramp[:, None] * ramp[None, :]).expand(18, 1, -1, -1)
    signed = F.conv2d(votes, kernel, stride=cell, padding=cell // 2, groups=18)
    unsigned = signed[:, :9] + signed[:, 9:]
    energy = F.pad((unsigned**2).sum(1, keepdim=True), (1, 1, 1, 1), mode="replicate")
    blocks = F.avg_pool2d(energy, 2, stride=1) * 4.0
    side = signed.shape[-1]
    corners = [blocks[..., y : y + side, x : x + side] for y in (0, 1) for x in (0, 1)]
    scales = [torch.rsqrt(corner + 1e-4) for corner in corners]
    parts = [torch.stack([(values * s).clamp(max=0.2) for s in scales]).sum(0) * 0.5 for values in (signed, unsigned)]
    texture = [(signed * s).clamp(max=0.2).sum(1, keepdim=True) * 0.2357 for s in scales]
    return torch.cat([*parts, *texture], 1)
