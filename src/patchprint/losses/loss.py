"""Base classes of losses: the input batch, its checks, arithmetic in float32 under autocast."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from patchprint.common.distributed import ALL_ROWS, Rows
from patchprint.common.errors import UserError


@dataclass(frozen=True, eq=False)
class DescriptorBatch:
    """The input of a loss: descriptors of several views of each point.

    Attributes:
        desc: unit length.
        raw: the same before normalization.
        valid: which views exist, None for all.
        ignore: pairs that count neither as positive nor as negative, the views of a point after each other.
        maps: normalized maps of the first and the last layer, for losses that need them.
        progress: the part of training done, in [0, 1].
        step: the key of whatever is random in a loss.
        label: points with equal labels are one class; without labels each point is a class of its own.
        teacher: unit descriptors that a trained network gives the same patches.
        rows: whose anchors this process compares with all points, where several processes hold the same batch.

    Shape:
        desc, raw (P, K, D); valid (P, K) bool; ignore (P*K, P*K) bool; maps (P, K, F) each; progress, step 0-dim;
        label (P,) int64; teacher (P, K, T).
    """

    desc: Tensor
    raw: Tensor
    valid: Tensor | None = None
    ignore: Tensor | None = None
    maps: tuple[Tensor, ...] | None = None
    progress: Tensor | float = 0.0
    step: Tensor | int = 0
    label: Tensor | None = None
    teacher: Tensor | None = None
    rows: Rows = ALL_ROWS

    def __post_init__(self) -> None:
        if self.desc.ndim != 3 or self.desc.shape != self.raw.shape:
            shapes = f"{tuple(self.desc.shape)} and {tuple(self.raw.shape)}"
            raise UserError(f"desc and raw must both be (points, views, dimension), got {shapes}")
        points, views = self.desc.shape[:2]
        if self.label is not None and self.label.shape != (points,):
            raise UserError(f"label must hold one class for each of the {points} points, got {tuple(self.label.shape)}")
        if self.teacher is not None and self.teacher.shape[:2] != (points, views):
            raise UserError(f"teacher must be of {points} points and {views} views, got {tuple(self.teacher.shape)}")
        # Python numbers would be constants of a compiled function.
        if not isinstance(self.progress, Tensor):
            object.__setattr__(self, "progress", torch.tensor(float(self.progress)))
        if not isinstance(self.step, Tensor):
            object.__setattr__(self, "step", torch.tensor(int(self.step)))

    @property
    def num_points(self) -> int:
        return self.desc.shape[0]

    @property
    def num_views(self) -> int:
        return self.desc.shape[1]

    @property
    def counts(self) -> Tensor:
        """1 for each patch that exists and 0 for the others, (P * K,), the dtype of the descriptors."""
        if self.valid is None:
            return self.desc.new_ones(self.num_points * self.num_views)
        return self.valid.flatten().to(self.desc.dtype)


def at_least_float32(value: Tensor) -> Tensor:
    """Convert half precision to float32, since distances of nearly equal descriptors need the digits; float64 stays."""
    return value if value.dtype == torch.float64 else value.float()


class Loss(nn.Module):
    """``loss(batch)`` returns a dict with ``total``, to be minimized, and named parts for the log, detached.

    A loss is compiled and recorded: no shape depends on values, nothing is read back to the host.

    Running statistics are buffers, so that they are in the checkpoint and move with ``.to()``; they are updated on the
    device, in training mode only. In distributed training every rank is given the gathered batch. Tables of all pairs are
    computed by ``batch.rows``, each rank those of its own anchors (`patchprint.common.distributed.Rows`).

    Attributes:
        needs_maps: ``batch.maps`` must be there.
        binary: it learns sign bits, for a network whose kind is "binary"; None for bits and floats alike.
        takes_labels: ``batch.label`` may be there: classes of several points.
        draws_by_position: something random depends on the place in the batch, so that the order of points matters.
        ordered_views: the views of a point play different parts, so that their order matters.
        smallest_positive: the part ``positive`` where both views are the same patch; None without such a part.
    """

    needs_maps: bool = False
    binary: bool | None = False
    takes_labels: bool = False
    draws_by_position: bool = False
    ordered_views: bool = False
    smallest_positive: float | None = None

    @classmethod
    def settings_for_run(cls, *, steps: int, batch: int, seed: int) -> dict[str, Any]:
        """Settings that follow from a run of ``steps`` steps on ``batch`` points, where a user gives none."""
        return {}

    def copy_traits_from(self, inner: Loss) -> None:
        """Set all attributes above to those of the loss that this one wraps."""
        self.needs_maps, self.binary = inner.needs_maps, inner.binary
        self.takes_labels, self.draws_by_position = inner.takes_labels, inner.draws_by_position
        self.ordered_views, self.smallest_positive = inner.ordered_views, inner.smallest_positive

    def forward(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        """Check the batch and compute ``total`` and parts, each 0-dim, in at least float32."""
        name = type(self).__name__
        if batch.label is not None and not self.takes_labels:
            raise UserError(f"{name} learns from views of points, not from labels; semihard takes labels")
        if batch.label is None and batch.num_points < 2:
            raise UserError("batch must hold at least two points, since negatives come from the other points")
        if self.needs_maps and batch.maps is None:
            raise UserError(f"{name} needs batch.maps; take them from network.forward_features")
        desc, raw = at_least_float32(batch.desc), at_least_float32(batch.raw)
        maps = None if batch.maps is None else tuple(map(at_least_float32, batch.maps))
        teacher = None if batch.teacher is None else at_least_float32(batch.teacher)
        with torch.autocast(batch.desc.device.type, enabled=False):
            parts = self.compute(dataclasses.replace(batch, desc=desc, raw=raw, maps=maps, teacher=teacher))
        return {name: part if name == "total" else part.detach() for name, part in parts.items()}

    def compute(self, batch: DescriptorBatch) -> dict[str, Tensor]:
        """Compute ``total`` and parts for the log, each 0-dim, in at least float32; a subclass implements it."""
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
        """Split a batch (P, 2, D) into its two views."""
        maps = tuple((each[:, 0], each[:, 1]) for each in batch.maps or ())
        ignore, count = batch.ignore, batch.num_points
        if ignore is not None:
            ignore = ignore.view(count, 2, count, 2).permute(1, 0, 3, 2).reshape(2 * count, 2 * count)
        # Both are there already in training; a caller's number lives on the CPU.
        progress, step = (torch.as_tensor(value, device=batch.desc.device) for value in (batch.progress, batch.step))
        (anchor, positive), (raw_anchor, raw_positive) = batch.desc.unbind(1), batch.raw.unbind(1)
        return Pairs(anchor, positive, raw_anchor, raw_positive, maps, ignore, progress, step, batch.rows)

    @property
    def ignore_across(self) -> Tensor | None:
        """The part of ``ignore`` between anchors (rows) and positives (columns), (P, P) bool or None."""
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
            raise UserError(f"{name} needs both views of every point: batch.valid must be None; doap takes any groups")
        return self.compute_pairs(Pairs.of(batch))

    def compute_pairs(self, pairs: Pairs) -> dict[str, Tensor]:
        """Compute ``total`` and parts for the log, each 0-dim, in at least float32; a subclass implements it."""
        raise NotImplementedError


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value


def require_at_least(name: str, value: float, lowest: float) -> float:
    if not value >= lowest:
        raise UserError(f"{name} must be at least {lowest:g}, got {value:g}")
    return value


def require_rate(name: str, value: float) -> float:
    if not 0.0 < value <= 1.0:
        raise UserError(f"{name} must be in (0, 1], got {value:g}")
    return value
