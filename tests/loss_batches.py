"""Batches and the list of losses with their settings, for all tests of losses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from patchprint import losses
from patchprint.types import DescriptorBatch

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "l2net": ("l2net", {}),
    "l2net-e1-e2": ("l2net", {"e3": False}),
    "doap": ("doap", {"bins": 10}),
    "doap-binary": ("doap-binary", {}),
    "doap-binary-wide": ("doap-binary", {"bins": 5}),
    **{
        f"hardnet-{mining}-{form}": ("hardnet", {"mining": mining, "form": form})
        for mining in ("hardest", "average", "random")
        for form in ("triplet", "softmax", "contrastive")
    },
    "hardnet-no-swap": ("hardnet", {"swap": False}),
    "hardnet-active-only": ("hardnet", {"margin": 0.3, "active_only": True}),
    "hardnet-gor-cpr": ("hardnet", {"gor": 1.0, "cpr": 0.5}),
    "sosnet": ("sosnet", {"neighbors": 2}),
    "hynet": ("hynet", {}),
    "hynet-second-order": ("hynet", {"second_order": 0.5}),
    "sdgm": ("sdgm", {}),
    **{f"sdgm-{weight}": ("sdgm", {"self_weight": weight}) for weight in ("theta", "s", "l2")},
    "sdgm-step": ("sdgm", {"coupled": "step"}),
    "sdgm-self-weight-only": ("sdgm", {"coupled": "none"}),
    "sdgm-soft": ("sdgm", {"margin": 0.0}),
    "sdgm-no-power": ("sdgm", {"power_adjustment": False}),
    "cdf": ("cdf", {"bins": 6}),
    "cdf-binary": ("cdf", {"bins": 6, "binary": True}),
    "scale-aware": ("scale-aware", {}),
    "scale-aware-raw": ("scale-aware", {"normalized": False}),
    "tfeat-margin": ("tfeat", {}),
    "tfeat-ratio": ("tfeat", {"form": "ratio", "swap": False}),
    "exp-tl": ("exp-tl", {}),
}

RANDOM = ("hardnet-random-", "hardnet-gor-cpr", "tfeat-")
"""Variants that draw their negatives by position in the batch, by the start of their name."""


def make_loss(variant: str) -> losses.Loss:
    """The loss of a variant, or ``sec:`` / ``norm:`` in front of it for the wrapped one."""
    if variant.startswith("sec:"):
        return losses.SEC(make_loss(variant.removeprefix("sec:")), weight=0.7, momentum=0.3)
    if variant.startswith("norm:"):
        return losses.NormPenalty(make_loss(variant.removeprefix("norm:")), weight=0.01)
    name, settings = VARIANTS[variant]
    return losses.create(name, **settings)


EVERY_LOSS = (*VARIANTS, "sec:hardnet-hardest-triplet", "norm:doap")


def random_raw(points: int = 6, views: int = 2, dim: int = 8, seed: int = 0, noise: float = 0.6) -> Tensor:
    """Raw descriptors (points, views, dim) in float64: a random vector per point, disturbed in each view."""
    generator = torch.Generator().manual_seed(seed)
    center = torch.randn(points, 1, dim, generator=generator, dtype=torch.float64)
    return center + noise * torch.randn(points, views, dim, generator=generator, dtype=torch.float64)


def batch_of(raw: Tensor, progress: float = 0.5, step: int = 3, **more: Any) -> DescriptorBatch:
    """A batch whose unit vectors and maps follow from the raw descriptors, so that gradients reach them."""
    return DescriptorBatch(
        desc=torch.nn.functional.normalize(raw, dim=-1),
        raw=raw,
        maps=(0.3 * raw, raw),
        progress=torch.tensor(progress),
        step=torch.tensor(step),
        **more,
    )
