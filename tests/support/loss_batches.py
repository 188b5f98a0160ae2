"""Batches, and every loss with the settings that it wants to be tested with, for all tests of losses."""

import importlib
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from patchprint import losses
from patchprint.losses import DescriptorBatch


def reference_module(name: str) -> ModuleType:
    """The module with the slow version of a loss."""
    return importlib.import_module(f"reference.{name.replace('-', '_')}")


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    f"{name}-{suffix}".removesuffix("-"): (name, settings)
    for name in losses.LOSSES
    for suffix, settings in getattr(reference_module(name), "VARIANTS", {"": {}}).items()
}
"""Names and settings of the losses as their references declare them, by the name of the variant."""

EVERY_LOSS = (*VARIANTS, "sec:hardnet-hardest-triplet", "sec:semihard", "norm:doap", "norm:tuplet-margin")


def make_loss(variant: str) -> losses.Loss:
    """The loss of a variant, or ``sec:`` / ``norm:`` in front of it for the wrapped one."""
    if variant.startswith("sec:"):
        return losses.SEC(make_loss(variant.removeprefix("sec:")), weight=0.7, momentum=0.3)
    if variant.startswith("norm:"):
        return losses.NormPenalty(make_loss(variant.removeprefix("norm:")), weight=0.01)
    name, settings = VARIANTS[variant]
    return losses.create(name, **settings)


def is_pair_loss(variant: str) -> bool:
    """Whether the loss of a variant, wrapped or not, takes exactly two views of a point."""
    return isinstance(make_loss(variant.rpartition(":")[2]), losses.PairLoss)


def random_raw(points: int = 6, views: int = 2, dim: int = 8, seed: int = 0, noise: float = 0.6) -> Tensor:
    """Raw descriptors (points, views, dim) in float64: a random vector per point, disturbed in each view."""
    generator = torch.Generator().manual_seed(seed)
    center = torch.randn(points, 1, dim, generator=generator, dtype=torch.float64)
    return center + noise * torch.randn(points, views, dim, generator=generator, dtype=torch.float64)


def on_circle(*degrees: float) -> Tensor:
    """Unit vectors (N, 2) in float64."""
    radians = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([radians.cos(), radians.sin()], 1)


def batch_of(raw: Tensor, progress: float = 0.5, step: int = 3, **more: Any) -> DescriptorBatch:
    """A batch whose unit vectors and maps follow from the raw descriptors, so that gradients reach them."""
    return DescriptorBatch(
        desc=torch.nn.functional.normalize(raw, dim=-1),
        raw=raw,
        maps=(0.3 * raw, raw),
        progress=progress,
        step=step,
        **more,
    )
