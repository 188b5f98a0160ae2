"""Matchers by name, nearest neighbors among them, and `match`, which runs one.

A file in this folder holds further matchers: its ``MATCHERS`` maps each name to a function whose keyword arguments are the
options of the matcher, whose docstring is its help, and which returns a `Matcher`. Files that begin with an underscore hold
none.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import torch

from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.registry import Registry, option_names
from patchprint.common.types import Features, Matches
from patchprint.features.model import LOWE_RATIO
from patchprint.interop.images import ImageLike
from patchprint.matching.two_view_geometry import verify
from patchprint.ops.distances import nearest, nearest_both_ways, nearest_inconsistent

DEFAULT_MATCHER = "mutual+ratio"

Geometry = Literal["auto", "homography", "fundamental", "none"]


class Matcher(Protocol):
    """Finds correspondences between the features of two images."""

    def __call__(self, a: Features, b: Features, device: torch.device) -> Matches:
        """Match; the result is on the CPU, ordered by index in ``a``, with a ``score`` where the matcher has one."""


@dataclass(frozen=True, kw_only=True)
class NearestNeighbors:
    """Nearest neighbors in descriptor space, from a to b.

    Attributes:
        mutual: keep a match only if each descriptor is the nearest of the other.
        tests_ratio: keep a match only if its distance is below ``ratio`` times that of the second nearest.
        ratio: None takes the ratio that the features carry, else Lowe's.
        radius: take as second nearest one that lies more than so many pixels away from the first.
        max_distance: drop matches above this distance.
    """

    mutual: bool = False
    tests_ratio: bool = False
    ratio: float | None = None
    radius: float | None = None
    max_distance: float | None = None

    def __call__(self, a: Features, b: Features, device: torch.device) -> Matches:
        of_a, of_b = a.descriptors.to(device), b.descriptors.to(device)
        second_needed = self.tests_ratio and self.radius is None
        neighbors = 2 if second_needed else 1
        if self.mutual:
            distance, index, keep = nearest_both_ways(of_a, of_b, neighbors)
        else:
            distance, index = nearest(of_a, of_b, neighbors)
            keep = index[:, 0] >= 0
        first = index[:, 0]
        if self.tests_ratio and len(b):
            second = distance[:, -1]
            if self.radius is not None:
                xy = b.keypoints.xy.to(device)
                second = nearest_inconsistent(of_a, of_b, first.to(device), xy, self.radius).cpu()
            ratio = self.ratio if self.ratio is not None else a.ratio if a.ratio is not None else LOWE_RATIO
            keep &= distance[:, 0] < ratio * second
        if self.max_distance is not None:
            keep &= distance[:, 0] <= self.max_distance
        rows = torch.nonzero(keep)[:, 0]
        return Matches(torch.stack([rows, first[rows]], 1), distance[rows, 0])


def nearest_neighbors(*, max_distance: float | None = None) -> NearestNeighbors:
    """Nearest neighbors, all of them."""
    return NearestNeighbors(max_distance=max_distance)


def mutual(*, max_distance: float | None = None) -> NearestNeighbors:
    """Mutual nearest neighbors."""
    return NearestNeighbors(mutual=True, max_distance=max_distance)


def ratio_test(*, ratio: float | None = None, max_distance: float | None = None) -> NearestNeighbors:
    """Nearest neighbors that pass the ratio test."""
    return NearestNeighbors(tests_ratio=True, ratio=ratio, max_distance=max_distance)


def mutual_ratio(*, ratio: float | None = None, max_distance: float | None = None) -> NearestNeighbors:
    """Mutual nearest neighbors that pass the ratio test."""
    return NearestNeighbors(mutual=True, tests_ratio=True, ratio=ratio, max_distance=max_distance)


def fginn(*, ratio: float | None = None, radius: float = 10.0, max_distance: float | None = None) -> NearestNeighbors:
    """Mutual nearest neighbors, ratio to the first geometrically inconsistent one (Mishkin et al. 2015).

    The second nearest is searched more than ``radius`` pixels away from the first, so that repeated detections of one structure
    do not discard each other.
    """
    return NearestNeighbors(mutual=True, tests_ratio=True, ratio=ratio, radius=radius, max_distance=max_distance)


def _in_files() -> dict[str, Callable[..., Matcher]]:
    found: dict[str, Callable[..., Matcher]] = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            found |= importlib.import_module(f"{__name__}.{module.name}").MATCHERS
    return found


MATCHERS: Registry[Callable[..., Matcher]] = Registry(
    "matcher",
    {
        "nearest": nearest_neighbors,
        "mutual": mutual,
        "ratio": ratio_test,
        "mutual+ratio": mutual_ratio,
        "fginn": fginn,
        **_in_files(),
    },
)


def has_option(name: str, option: str) -> bool:
    """Whether a matcher, or the graph with the weights of a file, has an option."""
    return option in option_names(MATCHERS["graph" if name.endswith(".safetensors") else name])


def create_matcher(name: str, *, ratio: float | None = None, **options: Any) -> Matcher:
    """Make a matcher by name; the name of a file (.safetensors) is the matcher graph with these weights.

    Args:
        ratio: threshold of the ratio test, for the matchers that have one.
        options: further options of the matcher.

    Raises:
        UserError: for a name or an option that is not known, and for a ratio outside of (0, 1].
    """
    if name.endswith(".safetensors"):
        name, options["weights"] = "graph", name
    if ratio is not None and not has_option(name, "ratio"):
        raise UserError(f"a ratio belongs to the matchers {', '.join(matchers_with_ratio())}, not to {name}")
    if ratio is not None and not 0 < ratio <= 1:
        raise UserError(f"ratio must lie in (0, 1], got {ratio}")
    if ratio is not None:
        options["ratio"] = ratio
    matcher: Matcher = MATCHERS.create(name, **options)
    return matcher


@dataclass(frozen=True, kw_only=True)
class MatchSettings:
    """How the features of two images are matched and verified; valid once constructed."""

    # How descriptors are matched.
    matcher: str = DEFAULT_MATCHER
    # Threshold of the ratio test; default: the calibrated one of the model, else 0.8.
    ratio: float | None = None
    # What inliers must agree with: auto (chosen by GRIC), homography, fundamental, or none (no verification).
    geometry: Geometry = "auto"
    # Align the pixels around matched keypoints, which places them several times as exactly.
    refine: bool = False

    def __post_init__(self) -> None:
        create_matcher(self.matcher, ratio=self.ratio)
        if self.geometry not in get_args(Geometry):
            raise UserError(f"unknown geometry {self.geometry!r}; known are {', '.join(get_args(Geometry))}")


def matchers_with_ratio() -> list[str]:
    """The names of the matchers with a ratio test."""
    return [name for name in MATCHERS if has_option(name, "ratio")]


def summary(name: str) -> str:
    """What a matcher keeps, in a few words."""
    text = inspect.getdoc(MATCHERS[name]) or name
    return text.splitlines()[0].rstrip(".").lower()


def match(
    a: Features,
    b: Features,
    matcher: str | Matcher = DEFAULT_MATCHER,
    *,
    ratio: float | None = None,
    device: str | torch.device = "cpu",
    **options: Any,
) -> Matches:
    """Match the features of two images.

    Args:
        matcher: a name in MATCHERS, or a matcher.
        ratio: threshold of the ratio test; by default the one that the features carry, calibrated for their model, else 0.8.
        device: where distances are computed.
        options: further options of the matcher, such as ``max_distance``: matches above this distance are dropped.

    Returns:
        Matches ordered by their index in a.

    Raises:
        UserError: for features of different models, and for an unknown matcher or option.
    """
    for given in (a, b):
        if not isinstance(given, Features):
            raise UserError(f"features are given as {type(given).__name__}; make them with patchprint.extract(image)")
    if a.model != b.model:
        raise UserError(f"features of two different models cannot be matched: {_name(a)} and {_name(b)}")
    if isinstance(matcher, str):
        matcher = create_matcher(matcher, ratio=ratio, **options)
    return matcher(a, b, choose_device(device))


def match_and_verify(
    a: Features,
    b: Features,
    settings: MatchSettings | None = None,
    *,
    images: Sequence[ImageLike] | None = None,
    device: str | torch.device = "cpu",
) -> Matches:
    """Match the features of two images, and verify the matches unless the geometry is "none".

    Args:
        images: both images, files or pixels, which ``settings.refine`` needs.
        device: where distances are computed.
    """
    settings = settings or MatchSettings()
    found = match(a, b, settings.matcher, ratio=settings.ratio, device=device)
    if settings.refine:
        if images is None:
            raise UserError("refining matches needs the pixels of both images; give match_and_verify its images")
        from patchprint.matching.keypoint_refinement import refine_matches

        found = refine_matches(a, b, found, images)
    return found if settings.geometry == "none" else verify(a, b, found, geometry=settings.geometry)


def _name(features: Features) -> str:
    return f"{features.model.name} {features.model.sha256[:8]}".strip()


__all__ = [
    "DEFAULT_MATCHER",
    "MATCHERS",
    "MatchSettings",
    "Matcher",
    "create_matcher",
    "has_option",
    "match",
    "match_and_verify",
]
