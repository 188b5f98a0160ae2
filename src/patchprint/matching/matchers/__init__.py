"""Matchers by name, and `match`, which runs one.

A file in this folder holds matchers: its ``MATCHERS`` maps each name to a function whose keyword arguments are the options of
the matcher, whose docstring is its help, and which returns a `Matcher`. Files that begin with an underscore hold none.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import torch

from patchprint.common.devices import choose_device
from patchprint.common.errors import UserError
from patchprint.common.registry import Registry, option_names
from patchprint.common.types import Features, Matches
from patchprint.matching.two_view_geometry import verify

DEFAULT_MATCHER = "mutual+ratio"

Geometry = Literal["auto", "homography", "fundamental", "none"]


class Matcher(Protocol):
    """Finds correspondences between the features of two images."""

    def __call__(self, a: Features, b: Features, device: torch.device) -> Matches:
        """Match; the result is on the CPU, ordered by index in ``a``, with a ``score`` where the matcher has one."""


def _discover() -> dict[str, Callable[..., Matcher]]:
    found: dict[str, Callable[..., Matcher]] = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            found |= importlib.import_module(f"{__name__}.{module.name}").MATCHERS
    return found


MATCHERS: Registry[Callable[..., Matcher]] = Registry("matcher", _discover())


def create_matcher(name: str, *, ratio: float | None = None, **options: Any) -> Matcher:
    """Make a matcher by name.

    Args:
        ratio: threshold of the ratio test, for the matchers that have one.
        options: further options of the matcher.

    Raises:
        UserError: for a name or an option that is not known, and for a ratio outside of (0, 1].
    """
    if ratio is not None and "ratio" not in option_names(MATCHERS[name]):
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

    def __post_init__(self) -> None:
        create_matcher(self.matcher, ratio=self.ratio)
        if self.geometry not in get_args(Geometry):
            raise UserError(f"unknown geometry {self.geometry!r}; known are {', '.join(get_args(Geometry))}")


def matchers_with_ratio() -> list[str]:
    """The names of the matchers with a ratio test."""
    return [name for name, create in MATCHERS.items() if "ratio" in option_names(create)]


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
            raise UserError(
                f"features are given as {type(given).__name__}; make them with patchprint.extract(image, model)"
            )
    if a.model != b.model:
        raise UserError(
            f"descriptors of two different models cannot be matched: {_name(a)} and {_name(b)}; describe both images with one"
        )
    if isinstance(matcher, str):
        matcher = create_matcher(matcher, ratio=ratio, **options)
    return matcher(a, b, choose_device(device))


def match_and_verify(
    a: Features, b: Features, settings: MatchSettings | None = None, *, device: str | torch.device = "cpu"
) -> Matches:
    """Match the features of two images, and verify the matches unless the geometry is "none"."""
    settings = settings or MatchSettings()
    found = match(a, b, settings.matcher, ratio=settings.ratio, device=device)
    return found if settings.geometry == "none" else verify(a, b, found, geometry=settings.geometry)


def _name(features: Features) -> str:
    return f"{features.model.name} {features.model.sha256[:8]}".strip()


__all__ = ["DEFAULT_MATCHER", "MATCHERS", "MatchSettings", "Matcher", "create_matcher", "match", "match_and_verify"]
