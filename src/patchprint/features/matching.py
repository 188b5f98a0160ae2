"""Correspondences between the prints of two pictures."""

from __future__ import annotations

import torch

from patchprint.errors import UserError
from patchprint.features.nearest import Backend, nearest, nearest_inconsistent
from patchprint.types import Features, Matches

DEFAULT_RATIO = 0.8  # Lowe's; used where a model brings no calibrated threshold
FGINN_RADIUS = 10.0  # pixels


def match(
    a: Features,
    b: Features,
    mutual: bool = True,
    ratio: float | None = None,
    fginn_radius: float | None = None,
    max_distance: float | None = None,
    backend: Backend = "auto",
    device: str | torch.device = "cpu",
) -> Matches:
    """Nearest neighbours from a to b.

    Args:
        mutual: keep a match only if each print is the nearest of the other.
        ratio: keep a match only if its distance is below ``ratio`` times that of the second nearest print.
        fginn_radius: with ``ratio``, compare instead with the nearest print that lies more than so many pixels away from
            the first (first geometrically inconsistent neighbour; Mishkin et al. 2015), so that repeated detections of one
            structure do not discard each other.
        max_distance: drop matches above this distance.

    Returns:
        Matches ordered by their index in a.
    """
    if a.model != b.model:
        raise UserError(
            f"prints of two different models cannot be matched: {_name(a)} and {_name(b)}; describe both pictures with one"
        )
    if fginn_radius is not None and ratio is None:
        raise UserError("fginn_radius needs a ratio")
    if ratio is not None and not 0 < ratio <= 1:
        raise UserError(f"ratio must lie in (0, 1], got {ratio}")
    descriptors_a, descriptors_b = a.descriptors.to(device), b.descriptors.to(device)
    distance, index = nearest(
        descriptors_a, descriptors_b, 2 if ratio is not None and fginn_radius is None else 1, backend
    )
    first = index[:, 0]
    keep = first >= 0
    if ratio is not None and len(b):
        if fginn_radius is None:
            second = distance[:, 1]
        else:
            xy = b.keypoints.xy.to(device)
            second = nearest_inconsistent(descriptors_a, descriptors_b, first.to(device), xy, fginn_radius).cpu()
        keep &= distance[:, 0] < ratio * second
    if mutual and len(b):
        _, back = nearest(descriptors_b, descriptors_a, 1, backend)
        keep &= back[first.clamp(min=0), 0] == torch.arange(len(first)) if len(a) else keep
    if max_distance is not None:
        keep &= distance[:, 0] <= max_distance
    rows = torch.nonzero(keep)[:, 0]
    return Matches(torch.stack([rows, first[rows]], 1), distance[rows, 0])


def _name(features: Features) -> str:
    return f"{features.model.name} {features.model.sha256[:8]}".strip()
