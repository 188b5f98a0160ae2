"""Refine where keypoints lie: views of one point, of a match or of a 3D model, are aligned with one of them by their pixels.

A detector finds the same blob up to a part of its size away from view to view, and a descriptor that tolerates much matches
such keypoints too. The pixels say more: each view is moved, turned, scaled and stretched until its patch agrees with that of
the reference view (Lucas and Kanade 1981, inverse compositional), brightness and contrast aside. Views that do not agree even
then keep their places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.common.types import Features, Keypoints, Matches
from patchprint.interop.images import ImageLike, read_gray
from patchprint.ops.sampling import ImagePyramids, sample_patches

CHUNK = 4096
SIZE = 21  # pixels a side of a patch


@dataclass(frozen=True, kw_only=True)
class RefineSettings:
    """How views of one point are aligned."""

    # Half the side of the patch that is aligned, in sigma.
    radius: float = 4.0
    # Steps of the alignment.
    steps: int = 15
    # Least correlation of two aligned patches; a view below it keeps its place.
    correlation: float = 0.85
    # Farthest that a keypoint moves, in pixels; readers of models want them near the keypoints of the database.
    most_px: float = 1.0
    # Farthest that an observation then lies from its point, in pixels; others are dropped from the model.
    most_error: float = 2.0


OF_MATCHES = RefineSettings(most_px=3.0)


def refine_matches(
    a: Features, b: Features, matches: Matches, images: Sequence[ImageLike], settings: RefineSettings = OF_MATCHES
) -> Matches:
    """Move the keypoints of b to where their pixels agree with those of a; matches whose pixels do not agree stay.

    Args:
        matches: of a and b, before `verify`, whose geometry then comes from the places in ``refined``.
        images: both images, files or pixels, in which the keypoints lie.

    Returns:
        The same matches with ``refined``.

    Raises:
        UserError: for pixels of another size than those of the features.
    """
    grays = [read_gray(image) for image in images]
    for features, pixels in zip((a, b), grays, strict=True):
        if pixels.shape[::-1] != tuple(features.image_size):
            raise UserError(f"an image has the shape {pixels.shape}, its features are of {features.image_size} pixels")
    rows = matches.indices.cpu()
    views = Keypoints.concatenate([each.keypoints[column] for each, column in zip((a, b), rows.T, strict=True)])
    image = torch.arange(2).repeat_interleave(len(rows))
    xy, _ = refine(grays.__getitem__, image, views, torch.arange(len(rows)).repeat(2), settings)
    return dataclasses.replace(matches, refined=xy[len(rows) :])


def refine_model(
    model: Any, keypoints: Mapping[str, Keypoints], image_folder: str | Path, settings: RefineSettings | None = None
) -> float:
    """Move the observations of a sparse model to where the pixels of their tracks agree, and adjust cameras and points.

    The view of middle size in a track is the reference of the others. Places come from ``keypoints``, so that a second call
    changes little more. Observations that stay far from their points are dropped: most are of another keypoint nearby.

    Args:
        model: a ``pycolmap.Reconstruction``, changed in place.
        keypoints: by image name, those that the model was made from.
        image_folder: where the images lie.
        settings: how views are aligned.

    Returns:
        The part of the observations that were aligned with a reference.
    """
    from patchprint.interop import colmap_sfm  # which two images do not need

    settings = settings or RefineSettings()
    image, index, point = colmap_sfm.observations(model)
    ids, place = np.unique(image, return_inverse=True)
    names = [model.images[number].name for number in ids.tolist()]
    views = Keypoints.concatenate([keypoints[name] for name in names])
    first = np.cumsum([0, *(len(keypoints[name]) for name in names)])
    views = views[torch.from_numpy(first[place] + index)]
    moved, aligned = refine(
        lambda number: read_gray(Path(image_folder) / names[number]),
        torch.from_numpy(place),
        views,
        torch.from_numpy(_middle(point, views.scale.numpy())),
        settings,
    )
    colmap_sfm.move_observations(model, image, index, moved.numpy(), settings.most_error)
    return float(aligned.float().mean()) if len(aligned) else 0.0


def _middle(point: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return for each view the row of that of middle scale among those of its point, (V,) int64."""
    order = np.lexsort((scale, point))
    labels, first, counts = np.unique(point[order], return_index=True, return_counts=True)
    return order[first + counts // 2][np.searchsorted(labels, point)]


def refine(
    read: Callable[[int], np.ndarray],
    image: Tensor,
    keypoints: Keypoints,
    reference: Tensor,
    settings: RefineSettings | None = None,
) -> tuple[Tensor, Tensor]:
    """Align V views with their reference views; one image at a time is in memory.

    Args:
        read: gray pixels (H, W) uint8 of an image; each is read twice.
        image: which image each view lies in.
        keypoints: the view of each.
        reference: which of the V views it is aligned with; a view that is its own reference stays.

    Returns:
        Places, and which views were aligned.

    Shape:
        image (V,) int64, keypoints of V, reference (V,) int64 -> (V, 2) float32, (V,) bool.
    """
    settings = settings or RefineSettings()
    xy, aligned = keypoints.xy.clone(), torch.zeros(len(keypoints), dtype=torch.bool)
    frames = keypoints.frames() * settings.radius
    moving = reference != torch.arange(len(reference))
    origins, template_of = reference.unique(return_inverse=True)
    templates = torch.zeros(len(origins), SIZE, SIZE, dtype=torch.float16)
    for number in image[origins].unique().tolist():
        pyramids = ImagePyramids.build([read(number)])
        for rows in (image[origins] == number).nonzero()[:, 0].split(CHUNK):
            origin = origins[rows]
            templates[rows] = _cut(pyramids, keypoints.xy[origin], frames[origin])[:, 0].half()
    for number in image[moving].unique().tolist():
        pyramids = ImagePyramids.build([read(number)])
        for rows in (moving & (image == number)).nonzero()[:, 0].split(CHUNK):
            template = templates[template_of[rows]].float()
            center, done = _align(pyramids, keypoints.xy[rows], frames[rows], template, settings)
            done &= (center - keypoints.xy[rows]).norm(dim=1) <= settings.most_px
            xy[rows[done]], aligned[rows] = center[done], done
    return xy, aligned


def _cut(pyramids: ImagePyramids, center: Tensor, frame: Tensor) -> Tensor:
    return sample_patches(pyramids, torch.zeros(len(center), dtype=torch.int64), center, frame, SIZE)


def _align(
    pyramids: ImagePyramids, center: Tensor, frame: Tensor, template: Tensor, settings: RefineSettings
) -> tuple[Tensor, Tensor]:
    """Return centers (N, 2) at which the patches agree best with ``template`` (N, S, S), and whether they agree enough."""
    weight = _window()
    goal, jacobian = _steepest(template, weight)
    solver = torch.linalg.pinv(jacobian.mT @ jacobian, hermitian=True) @ jacobian.mT
    place, shape = center.clone(), frame.clone()
    best, chosen = torch.full((len(center),), -2.0), center.clone()
    for step in range(settings.steps + 1):
        patch = _cut(pyramids, place, shape)[:, 0].flatten(1)
        value = _unit(patch, weight)
        correlation = (value * goal).sum(1)
        better = correlation > best
        best, chosen = torch.where(better, correlation, best), torch.where(better[:, None], place, chosen)
        if step == settings.steps:
            break
        change = (solver @ (value - goal)[..., None])[..., 0]
        inverse, shift = _undo(change)
        place = place + (shape @ shift[..., None])[..., 0]
        shape = shape @ inverse
    return chosen, best >= settings.correlation


def _window() -> Tensor:
    """Weights of the pixels of a patch: a Gaussian whose sigma is half of the half side, (S * S,), square roots."""
    u = (torch.arange(SIZE) * 2 + 1) / SIZE - 1
    return torch.exp(-(u[:, None] ** 2 + u[None, :] ** 2)).flatten()


def _unit(patch: Tensor, weight: Tensor) -> Tensor:
    """Take brightness and contrast away, (N, S * S)."""
    mean = (patch * weight**2).sum(1, keepdim=True) / (weight**2).sum()
    value = (patch - mean) * weight
    return value / value.norm(dim=1, keepdim=True).clamp(min=1e-6)


def _steepest(template: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the unit template (N, S * S), and how it changes with the six numbers of an affine map, (N, S * S, 6)."""
    dy, dx = torch.gradient(template, spacing=2.0 / SIZE, dim=(1, 2))
    u = (torch.arange(SIZE) * 2 + 1) / SIZE - 1
    x, y = u[None, :].expand(SIZE, SIZE), u[:, None].expand(SIZE, SIZE)
    columns = torch.stack([dx * x, dx * y, dy * x, dy * y, dx, dy], -1).flatten(1, 2)
    goal = _unit(template.flatten(1), weight)
    flat = template.flatten(1)
    mean = (flat * weight**2).sum(1, keepdim=True) / (weight**2).sum()
    scale = ((flat - mean) * weight).norm(dim=1).clamp(min=1e-6)
    center = (columns * (weight**2)[:, None]).sum(1, keepdim=True) / (weight**2).sum()
    jacobian = (columns - center) * weight[:, None] / scale[:, None, None]
    # Contrast is no change of place.
    jacobian = jacobian - goal[..., None] * (goal[..., None] * jacobian).sum(1, keepdim=True)
    return goal, jacobian


def _undo(change: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inverse of the affine maps u -> (I + A) u + b, their linear parts (N, 2, 2) and shifts (N, 2)."""
    linear = torch.eye(2) + change[:, :4].reshape(-1, 2, 2).clamp(-0.3, 0.3)
    inverse = torch.linalg.inv(linear)
    return inverse, -(inverse @ change[:, 4:].clamp(-0.5, 0.5)[..., None])[..., 0]
