"""What all losses share: one call, checks of the batch, and arithmetic in float32 whatever autocast says."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from patchprint.common.distributed import Rows
from patchprint.common.errors import UserError
from patchprint.losses.descriptor_batch import DescriptorBatch


def at_least_float32(value: Tensor) -> Tensor:
    """Half precision becomes float32; float64 stays. Distances of nearly equal descriptors need the digits. Any shape."""
    return value if value.dtype == torch.float64 else value.float()


class Loss(nn.Module):
    """``loss(batch)`` gives a dict with ``total``, to be minimised, and named parts for the log (detached).

    Running statistics are buffers: they are in the checkpoint and move with ``.to()``. They are updated in training mode
    only, on the device. In distributed training a loss is given the gathered batch, of which every rank computes all. What it
    computes of all pairs it does by ``batch.rows``, each rank for its own anchors (`patchprint.common.distributed.Rows`); one
    that does not is right as well, but its tables grow with the number of ranks.

    A loss says here what training and tests must know of it; what depends on a setting is set again in ``__init__``.
    """

    needs_maps: bool = False
    """Whether ``DescriptorBatch.maps`` must be there."""

    binary: bool | None = False
    """Whether it learns sign bits, for a network whose kind is "binary"; None: bits and floats alike."""

    fixed_shapes: bool = True
    """Whether it may be compiled and recorded: no shape depends on values, and nothing is read back to the host."""

    takes_labels: bool = False
    """Whether ``DescriptorBatch.label`` may be there: classes of several points."""

    draws_by_position: bool = False
    """Whether something random goes by the place in the batch, so that points in another order give another value."""

    ordered_views: bool = False
    """Whether the views of a point play different parts, so that another order of them gives another value."""

    smallest_positive: float | None = None
    """The reported part ``positive`` where both views are the same patch, or None for a loss that reports no such part."""

    variants: ClassVar[dict[str, dict[str, Any]]] = {"": {}}
    """Settings that the tests run, by the suffix of their name (``hardnet-no-swap`` is ``no-swap`` of ``hardnet``)."""

    @classmethod
    def settings_for_run(cls, *, steps: int, batch: int, seed: int) -> dict[str, Any]:
        """Settings that follow from a run of ``steps`` steps on ``batch`` points, where a user gives none."""
        return {}

    def take_after(self, inner: Loss) -> None:
        """Want and promise what the loss inside of this one does."""
        self.needs_maps, self.binary = inner.needs_maps, inner.binary
        self.fixed_shapes, self.takes_labels = inner.fixed_shapes, inner.takes_labels
        self.draws_by_position, self.ordered_views = inner.draws_by_position, inner.ordered_views
        self.smallest_positive = inner.smallest_positive

    def forward(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        """Check the batch and compute in at least float32.

        Shape:
            batch.desc (P, K, D), P at least 2 where points have no labels -> ``total`` and parts, each 0-dim.
        """
        if batch.label is not None and not self.takes_labels:
            raise UserError(
                f"{type(self).__name__} learns from views of points, not from labels; semihard takes labels"
            )
        if batch.label is None and batch.num_points < 2:
            raise UserError("batch must hold at least two points, since negatives come from the other points")
        if self.needs_maps and batch.maps is None:
            raise UserError(f"{type(self).__name__} needs batch.maps; take them from network.forward_features")
        with torch.autocast(batch.desc.device.type, enabled=False):
            return self.compute(batch)

    def compute(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        """What ``forward`` returns, without autocast; a subclass implements it.

        Shape:
            batch.desc (P, K, D) -> ``total`` and detached parts, each 0-dim.
        """
        raise NotImplementedError


class Pairs(NamedTuple):
    """A batch of P points in exactly two views.

    Shape:
        anchor, positive (P, D) unit length; raw_anchor, raw_positive (P, D); maps: pairs (P, F), (P, F);
        ignore (2P, 2P) bool, anchors first, or None.
    """

    anchor: Tensor
    positive: Tensor
    raw_anchor: Tensor
    raw_positive: Tensor
    maps: tuple[tuple[Tensor, Tensor], ...]
    ignore: Tensor | None
    progress: Tensor
    step: Tensor
    rows: Rows

    @staticmethod
    def of(batch: DescriptorBatch) -> Pairs:
        """The pairs of a batch in two views, in at least float32.

        Shape:
            batch.desc (P, 2, D).
        """
        anchor, positive = at_least_float32(batch.desc).unbind(1)
        raw_anchor, raw_positive = at_least_float32(batch.raw).unbind(1)
        maps = tuple((m[:, 0], m[:, 1]) for m in map(at_least_float32, batch.maps or ()))
        ignore = batch.ignore
        if ignore is not None:
            count = batch.num_points
            ignore = ignore.view(count, 2, count, 2).permute(1, 0, 3, 2).reshape(2 * count, 2 * count)
        # Both are there already in training; a caller's number lives on the CPU.
        progress, step = (torch.as_tensor(value, device=anchor.device) for value in (batch.progress, batch.step))
        return Pairs(anchor, positive, raw_anchor, raw_positive, maps, ignore, progress, step, batch.rows)

    @property
    def ignore_across(self) -> Tensor | None:
        """The part of ``ignore`` between anchors (rows) and positives (columns).

        Shape:
            -> (P, P) bool or None.
        """
        return None if self.ignore is None else self.ignore.chunk(2)[0].chunk(2, dim=1)[1]


class PairLoss(Loss):
    """A loss on pairs: two views of each point. Ignored pairs are never mined as negatives.

    Two views that are the same patch are no error: their distance is at its minimum and passes no gradient on.
    """

    ordered_views = True

    def compute(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        name = type(self).__name__
        if batch.num_views != 2:
            raise UserError(f"{name} needs exactly two views per point, got {batch.num_views}; doap takes any number")
        if batch.valid is not None:
            raise UserError(
                f"{name} needs both views of every point, so batch.valid must be None; doap takes any groups"
            )
        return self.compute_pairs(Pairs.of(batch))

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        """What ``forward`` returns; a subclass implements it.

        Shape:
            pairs.anchor, pairs.positive (P, D), at least float32 -> ``total`` and detached parts, each 0-dim.
        """
        raise NotImplementedError


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value


def require_at_least(name: str, value: float, lowest: float) -> float:
    if not value >= lowest:
        raise UserError(f"{name} must be at least {lowest:g}, got {value:g}")
    return value
