"""HPatches-like data out of image sequences with homographies, so that its tasks run on any sequences.

Keypoints are found in the reference; of detections that lie on each other one stays. In the other images the homography says
where they are, and random affine jitter of three strengths (easy, hard, tough) stands for the errors of a detector.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.common.types import Keypoints
from patchprint.data.builders import hpatches_patches
from patchprint.detectors import detect
from patchprint.interop.sequences import ImageSequence, find_sequences
from patchprint.ops.geometry import jacobian, project, rotation
from patchprint.ops.sampling import ImagePyramids, sample_patches

RADIUS = 5.0  # of a region, in sigma
DETECTORS = ("dog-published", "hessian", "harris")
IMAGES = (1, 2, 3, 4, 5, 6)  # 1 is the reference
OVERLAP = 0.5  # circles that share more than this part of their union are one cluster
# Jitter by strength: regions keep a median overlap of about 0.85, 0.72 and 0.60 with the true one.
STRENGTHS = {"e": 1.0, "h": 2.0, "t": 3.05}
# Limits of the jitter at strength 1: turn in radians, shift in radii, size and stretch in octaves.
_TURN, _SHIFT, _SIZE, _STRETCH = 0.12, 0.114, 0.156, 0.142


def build(
    src: str | Path,
    out: str | Path,
    *,
    max_keypoints: int = 1000,
    split: hpatches_patches.Split | None = None,
    levels: tuple[hpatches_patches.Level, ...] = hpatches_patches.LEVELS,
    mine_labels: bool = False,
    seed: int = 0,
    force: bool = False,
) -> None:
    """Patches like those of HPatches, made from image sequences with homographies.

    Args:
        src: folder with the sequences, images 1 to 6 and homographies H_1_2 ... in each.
        out: store to write, views in the order of ``hpatches.STRIPS``.
        max_keypoints: keypoints in the first image of a sequence, of each of the three detectors.
        split: keep the published test sequences apart as "test"; of the others, some at the end of the alphabet are held out.
        levels: views to keep beside ref, for training (L2-Net learned from easy and hard); the benchmark needs all.
        mine_labels: mine which patches of a sequence surely differ (DOAP).
        seed: of everything random.
        force: replace the store if it exists.
    """
    sequences = [_six_images(sequence) for sequence in find_sequences(src)]
    regions = [find_regions(sequence, max_keypoints, seed) for sequence in sequences]
    for sequence, found in zip(sequences, regions, strict=True):
        if len(found) == 0:
            raise UserError(f"no keypoint of {sequence.paths[1]} lies inside of all images of its sequence")
    blocks = (cut(*pair, seed=seed + i) for i, pair in enumerate(zip(sequences, regions, strict=True)))
    names = [sequence.name for sequence in sequences]
    counts = [len(found) for found in regions]
    hpatches_patches.write(out, blocks, names, counts, split=split, levels=levels, mine_labels=mine_labels, force=force)


def _six_images(sequence: ImageSequence) -> ImageSequence:
    missing = [number for number in IMAGES if number not in sequence.paths]
    if missing:
        raise UserError(f"the sequence {sequence.name} lacks image {missing[0]}; HPatches' tasks need images 1 to 6")
    return ImageSequence(
        sequence.name,
        {number: sequence.paths[number] for number in IMAGES},
        {number: sequence.homographies[number] for number in IMAGES[1:]},
    )


def find_regions(sequence: ImageSequence, max_keypoints: int, seed: int) -> Keypoints:
    """Detect keypoints of the reference whose regions lie inside of all images, one of every cluster."""
    reference = sequence.read(1)
    found = [detect(reference, detector, max_keypoints=max_keypoints, spread=False) for detector in DETECTORS]
    keypoints = Keypoints.concatenate(found)
    frames = keypoints.frames() * RADIUS
    inside = _inside(keypoints.xy, frames, reference.shape)
    for number, homography in sequence.homographies.items():
        moved, derivative = _project(keypoints.xy, homography)
        inside &= _inside(moved, derivative @ frames, sequence.read(number).shape)
    return one_of_every_cluster(keypoints[inside], seed)


def one_of_every_cluster(keypoints: Keypoints, seed: int) -> Keypoints:
    """Keep one keypoint of each cluster: in random order, each removes those that it overlaps."""
    order = torch.randperm(len(keypoints), generator=torch.Generator().manual_seed(seed))
    xy, radius = keypoints.xy[order], keypoints.scale[order] * RADIUS
    overlap = circle_overlap(torch.cdist(xy, xy), radius[:, None], radius[None, :]) > OVERLAP
    taken = torch.zeros(len(order), dtype=torch.bool)
    keep = []
    for index in range(len(order)):
        if not taken[index]:
            keep.append(int(order[index]))
            taken |= overlap[index]
    return keypoints[torch.tensor(sorted(keep), dtype=torch.int64)]


def circle_overlap(distance: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return intersection over union of circles of radius a and b whose centers are ``distance`` apart; they broadcast."""
    small, large = torch.minimum(a, b), torch.maximum(a, b)
    d = distance.clamp(min=1e-6)
    to_a = ((d**2 + a**2 - b**2) / (2 * d * a)).clamp(-1, 1)
    to_b = ((d**2 + b**2 - a**2) / (2 * d * b)).clamp(-1, 1)
    triangle = ((-d + a + b) * (d + a - b) * (d - a + b) * (d + a + b)).clamp(min=0).sqrt() / 2
    lens = a**2 * torch.acos(to_a) + b**2 * torch.acos(to_b) - triangle
    shared = torch.where(distance <= large - small, torch.pi * small**2, lens)
    shared = torch.where(distance >= a + b, 0.0, shared)
    return shared / (torch.pi * (a**2 + b**2) - shared)


def cut(sequence: ImageSequence, keypoints: Keypoints, seed: int) -> np.ndarray:
    """Cut the patches of all views, (16, N, 65, 65) uint8 in the order of ``hpatches.STRIPS``."""
    generator = np.random.default_rng(seed)
    pyramids = ImagePyramids.build([sequence.read(number) for number in IMAGES])
    frames = keypoints.frames() * RADIUS
    strips = [_sample(pyramids, 0, keypoints.xy, frames)]
    for strength in STRENGTHS.values():
        for number in IMAGES[1:]:
            affine = random_affine(generator, len(keypoints), strength)
            center = keypoints.xy + (frames @ affine[:, :, 2:])[:, :, 0]
            moved, derivative = _project(center, sequence.homographies[number])
            strips.append(_sample(pyramids, number - 1, moved, derivative @ frames @ affine[:, :, :2]))
    return np.stack(strips)


def random_affine(generator: np.random.Generator, count: int, strength: float) -> Tensor:
    """Draw affine maps (N, 2, 3) of the unit circle: turn, shift, size and stretch along a random direction."""

    def draw(limit: float) -> np.ndarray:
        return generator.uniform(-limit, limit, count) * strength

    turn, axis = rotation(draw(_TURN)), rotation(generator.uniform(0, np.pi, count))
    stretch = np.exp2(draw(_STRETCH))
    diagonal = np.zeros((count, 2, 2))
    diagonal[:, 0, 0], diagonal[:, 1, 1] = stretch, 1 / stretch
    linear = turn @ axis @ diagonal @ axis.swapaxes(1, 2) * np.exp2(draw(_SIZE))[:, None, None]
    shift = np.stack([draw(_SHIFT), draw(_SHIFT)], 1)
    return torch.from_numpy(np.concatenate([linear, shift[:, :, None]], 2)).float()


def _project(xy: Tensor, homography: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return where points (N, 2) go under a homography, and its derivative there, (N, 2, 2)."""
    points = xy.double().numpy()
    moved, derivative = project(homography, points), jacobian(homography, points)
    return torch.from_numpy(moved).float(), torch.from_numpy(derivative).float()


def _inside(center: Tensor, frame: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return whether the ellipse ``frame @ circle`` around ``center`` lies in an image of ``shape``, (N,)."""
    half = frame.norm(dim=2)
    limit = torch.tensor([shape[1] - 1.0, shape[0] - 1.0])
    return ((center - half >= 0) & (center + half <= limit)).all(1)


def _sample(pyramids: ImagePyramids, image: int, center: Tensor, frame: Tensor) -> np.ndarray:
    number = torch.full((len(center),), image)
    parts = [
        sample_patches(pyramids, number[block], center[block], frame[block], hpatches_patches.SIDE)
        for block in torch.arange(len(center)).split(2048)
    ]
    return (torch.cat(parts)[:, 0] * 255).round().to(torch.uint8).numpy()
