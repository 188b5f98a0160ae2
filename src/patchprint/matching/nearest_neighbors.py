"""Correspondences between the descriptors of two images: the one rule of API, command line and pipelines."""

from __future__ import annotations

from typing import Literal, get_args

import torch

from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.features.model import LOWE_RATIO
from patchprint.ops.distances import Backend, nearest, nearest_inconsistent
from patchprint.types import Features, Matches

Mode = Literal["mutual", "ratio", "mutual+ratio", "fginn", "nearest"]
RATIO_MODES: tuple[Mode, ...] = ("ratio", "mutual+ratio", "fginn")
DEFAULT_MODE: Mode = "mutual+ratio"
FGINN_RADIUS = 10.0  # pixels


def match(
    a: Features,
    b: Features,
    mode: Mode = DEFAULT_MODE,
    ratio: float | None = None,
    fginn_radius: float = FGINN_RADIUS,
    max_distance: float | None = None,
    backend: Backend = "auto",
    device: str | torch.device = "cpu",
) -> Matches:
    """Nearest neighbors from a to b that pass a test.

    Args:
        mode: "mutual" keeps a match only if each descriptor is the nearest of the other; "ratio" only if its distance is
            below ``ratio`` times that of the second nearest; "mutual+ratio" asks for both; "fginn" too, but compares with the
            nearest descriptor more than ``fginn_radius`` pixels away from the first (first geometrically inconsistent neighbor;
            Mishkin et al. 2015), so that repeated detections of one structure do not discard each other; "nearest" keeps all.
        ratio: threshold of the ratio test; by default the one that the features carry, calibrated for their model, else 0.8.
        max_distance: drop matches above this distance.

    Returns:
        Matches ordered by their index in a.
    """
    for given in (a, b):
        if not isinstance(given, Features):
            raise UserError(
                f"features are given as {type(given).__name__}; make them with patchprint.extract(image, model)"
            )
    if a.model != b.model:
        raise UserError(
            f"descriptors of two different models cannot be matched: {_name(a)} and {_name(b)}; describe both images with one"
        )
    check_rule(mode, ratio)
    tests_ratio = mode in RATIO_MODES
    device = choose_device(device)
    of_a, of_b = a.descriptors.to(device), b.descriptors.to(device)
    second_needed = tests_ratio and mode != "fginn"
    distance, index = nearest(of_a, of_b, 2 if second_needed else 1, backend)
    first = index[:, 0]
    keep = first >= 0
    if tests_ratio and len(b):
        if mode == "fginn":
            xy = b.keypoints.xy.to(device)
            second = nearest_inconsistent(of_a, of_b, first.to(device), xy, fginn_radius).cpu()
        else:
            second = distance[:, 1]
        threshold = ratio if ratio is not None else a.ratio if a.ratio is not None else LOWE_RATIO
        keep &= distance[:, 0] < threshold * second
    if mode in ("mutual", "mutual+ratio", "fginn") and len(a) and len(b):
        # Only those of b are asked back that a match is left for.
        rows = torch.nonzero(keep)[:, 0]
        asked, which = torch.unique(first[rows], return_inverse=True)
        _, back = nearest(of_b[asked.to(device)], of_a, 1, backend)
        keep[rows] = back[which, 0] == rows
    if max_distance is not None:
        keep &= distance[:, 0] <= max_distance
    rows = torch.nonzero(keep)[:, 0]
    return Matches(torch.stack([rows, first[rows]], 1), distance[rows, 0])


def check_rule(mode: Mode, ratio: float | None) -> None:
    """Raise UserError where `match` would, before there are features."""
    if mode not in get_args(Mode):
        raise UserError(f"unknown mode {mode!r}; known are mutual, ratio, mutual+ratio, fginn and nearest")
    if ratio is not None and mode not in RATIO_MODES:
        raise UserError(f"a ratio belongs to the modes ratio, mutual+ratio and fginn, not to {mode}")
    if ratio is not None:
        check_ratio(ratio)


def check_ratio(ratio: float) -> None:
    if not 0 < ratio <= 1:
        raise UserError(f"ratio must lie in (0, 1], got {ratio}")


def _name(features: Features) -> str:
    return f"{features.model.name} {features.model.sha256[:8]}".strip()
