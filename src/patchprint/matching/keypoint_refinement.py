"""Refine where keypoints lie: all views of a 3D point are aligned with one of them by their pixels.

A detector finds the same blob up to a part of its size away from view to view, and a descriptor that tolerates much matches
such keypoints too. The pixels say more: each view is moved, turned, scaled and stretched until its patch agrees with that of
the reference view (Lucas and Kanade 1981, inverse compositional), brightness and contrast aside. Views that do not agree even
then keep their places.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from patchprint.common.types import Keypoints
from patchprint.ops.sampling import ImagePyramids, sample_patches

CHUNK = 4096
SIZE = 21  # pixels a side of a patch


@dataclass(frozen=True, kw_only=True)
class RefineSettings:
    """How the views of a track are aligned."""

    # Half the side of the patch that is aligned, in sigma.
    radius: float = 4.0
    # Steps of the alignment.
    steps: int = 15
    # Least correlation of two aligned patches; a view below it keeps its place.
    correlation: float = 0.85
    # Farthest that a keypoint moves, in sigma and, if that is more, in pixels.
    most_sigma: float = 0.6
    most_px: float = 0.5


def refine(
    pyramids: ImagePyramids,
    image: Tensor,
    keypoints: Keypoints,
    reference: Tensor,
    settings: RefineSettings | None = None,
) -> tuple[Tensor, Tensor]:
    """Align V views with their reference views.

    Args:
        image: which image each view lies in.
        keypoints: the view of each.
        reference: which of the V views it is aligned with; a view that is its own reference stays.

    Returns:
        Places and which views were aligned.

    Shape:
        image (V,) int64, keypoints of V, reference (V,) int64 -> (V, 2) float32, (V,) bool.
    """
    settings = settings or RefineSettings()
    xy, aligned = keypoints.xy.clone(), torch.zeros(len(keypoints), dtype=torch.bool)
    frames = keypoints.frames() * settings.radius
    own = torch.arange(len(reference))
    for rows in (reference != own).nonzero()[:, 0].split(CHUNK):
        origin = reference[rows]
        template = sample_patches(pyramids, image[origin], keypoints.xy[origin], frames[origin], SIZE)[:, 0]
        center, done = _align(pyramids, image[rows], keypoints.xy[rows], frames[rows], template, settings)
        most = (settings.most_sigma * keypoints.scale[rows]).clamp(min=settings.most_px)
        done &= (center - keypoints.xy[rows]).norm(dim=1) <= most
        xy[rows[done]], aligned[rows] = center[done], done
    return xy, aligned


def _align(
    pyramids: ImagePyramids, image: Tensor, center: Tensor, frame: Tensor, template: Tensor, settings: RefineSettings
) -> tuple[Tensor, Tensor]:
    """Return centers (N, 2) at which the patches agree best with ``template`` (N, S, S), and whether they agree enough."""
    weight = _window()
    goal, jacobian = _steepest(template, weight)
    solver = torch.linalg.pinv(jacobian.mT @ jacobian, hermitian=True) @ jacobian.mT
    place, shape = center.clone(), frame.clone()
    best, chosen = torch.full((len(center),), -2.0), center.clone()
    for step in range(settings.steps + 1):
        patch = sample_patches(pyramids, image, place, shape, SIZE)[:, 0].flatten(1)
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
