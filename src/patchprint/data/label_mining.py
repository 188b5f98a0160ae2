"""DOAP's label mining: find patches of a sequence that surely show different points.

HPatches' sequences show planes with repeated texture, and their points are numbered apart even where two detections lie
on the same spot. So patches of one sequence count as negatives of each other only where their clusters are far apart:
K-means (100) on HOG and pixels of each patch; the 20th percentile of the distances between centres is the threshold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common.optional import require
from patchprint.data import manifest


@dataclass(frozen=True, eq=False)
class MinedLabels:
    """The cluster of each patch, and which clusters of a sequence are distractors of each other.

    Shape:
        cluster (M,) int16 for the rows of the patch array; distractor (S, C, C) bool for the sequences.
    """

    cluster: Tensor
    distractor: Tensor

    def save(self, folder: Path) -> None:
        manifest.save(folder, "cluster", self.cluster.cpu().numpy())
        manifest.save(folder, "distractor", self.distractor.cpu().numpy())

    @staticmethod
    def load(folder: Path) -> MinedLabels:
        return MinedLabels(
            *(torch.from_numpy(manifest.load(folder, n, in_memory=True)) for n in ("cluster", "distractor"))
        )

    def to(self, device: torch.device | str) -> MinedLabels:
        return MinedLabels(self.cluster.to(device), self.distractor.to(device))

    def are_distractors(self, scene: Tensor, row: Tensor) -> Tensor:
        """For patches of scene (Q,) at rows (Q,): whether two of the same sequence surely differ, (Q, Q) bool."""
        cluster = self.cluster[row].long()
        return self.distractor[scene[:, None], cluster[:, None], cluster[None, :]]


def mine(patches: Iterable[np.ndarray], clusters: int = 100, percentile: float = 20.0, seed: int = 0) -> MinedLabels:
    """Mine sequence by sequence: ``patches`` yields the patches (B, S, S) uint8 of one sequence after the other."""
    cluster = require("sklearn.cluster", extra="sfm")
    labels, distractors = [], []
    for block in patches:
        feature = describe(torch.from_numpy(np.array(block)))
        fitted = cluster.KMeans(min(clusters, len(feature)), n_init=1, random_state=seed).fit(feature.numpy())
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


def describe(patches: Tensor, chunk: int = 4096) -> Tensor:
    """HOG of 31 channels on 8x8 cells of the 64x64 patch, and its pixels at 16x16: (M, S, S) uint8 -> (M, 2240)."""
    rows = []
    for block in patches.split(chunk):
        pixels = block[:, None].float() / 255.0
        large = torch.nn.functional.interpolate(pixels, (64, 64), mode="bilinear", align_corners=False, antialias=True)
        small = torch.nn.functional.interpolate(pixels, (16, 16), mode="bilinear", align_corners=False, antialias=True)
        rows.append(torch.cat([hog31(large[:, 0]).flatten(1), small.flatten(1)], 1))
    return torch.cat(rows)


def hog31(images: Tensor, cell: int = 8) -> Tensor:
    """The HOG of deformable part models: 18 signed, 9 unsigned orientations and 4 texture sums per cell.

    Each cell is normalized by the energy of its four 2x2 neighborhoods, clipped at 0.2, as Felzenszwalb et al. do.
    Gradients vote for their nearest orientation and, bilinearly, for the four nearest cells.

    Shape:
        images (N, S, S) float -> (N, 31, S / cell, S / cell)
    """
    padded = torch.nn.functional.pad(images[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
    dx, dy = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2], padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    orientation = (torch.atan2(dy, dx) * (18 / (2 * torch.pi))).round().long() % 18
    votes = torch.zeros(len(images), 18, *images.shape[1:]).scatter_(
        1, orientation[:, None], torch.hypot(dx, dy)[:, None]
    )
    ramp = 1.0 - (torch.arange(2 * cell) - cell + 0.5).abs() / cell
    kernel = (ramp[:, None] * ramp[None, :]).expand(18, 1, -1, -1)
    signed = torch.nn.functional.conv2d(votes, kernel, stride=cell, padding=cell // 2, groups=18)
    unsigned = signed[:, :9] + signed[:, 9:]
    energy = torch.nn.functional.pad((unsigned**2).sum(1, keepdim=True), (1, 1, 1, 1), mode="replicate")
    blocks = torch.nn.functional.avg_pool2d(energy, 2, stride=1) * 4.0
    side = signed.shape[-1]
    corners = [blocks[..., y : y + side, x : x + side] for y in (0, 1) for x in (0, 1)]
    scales = [torch.rsqrt(corner + 1e-4) for corner in corners]
    parts = [torch.stack([(values * s).clamp(max=0.2) for s in scales]).sum(0) * 0.5 for values in (signed, unsigned)]
    texture = [(signed * s).clamp(max=0.2).sum(1, keepdim=True) * 0.2357 for s in scales]
    return torch.cat([*parts, *texture], 1)
