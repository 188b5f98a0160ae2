"""The input of a loss: descriptors of several views of each point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from patchprint.common.distributed import ALL_ROWS, Rows
from patchprint.common.errors import UserError


@dataclass(frozen=True, eq=False)
class DescriptorBatch:
    """What a loss sees: P points in K views each, described by D numbers.

    Shape:
        desc (P, K, D) unit length; raw (P, K, D) before normalisation; valid (P, K) bool or None for ragged groups;
        ignore (P*K, P*K) bool or None: pairs that count neither as positive nor as negative; maps: pairs of normalised
        maps (P, K, F), first and last layer, or None; progress: 0-dim tensor in [0, 1], the part of training done;
        step: 0-dim int64 tensor, the key of whatever is random in a loss. Python numbers become such tensors; inside a
        compiled function they would be constants of it, hence the tensors. label (P,) int64 or None: points with equal
        labels are one class; without labels each point is a class of its own. teacher (P, K, T) unit length or None: what
        a trained network says of the same patches.

    Where several processes hold the same batch, ``rows`` says whose anchors this one compares with all points.
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
            raise UserError(
                f"desc and raw must both be (points, views, dimension), got {tuple(self.desc.shape)} "
                f"and {tuple(self.raw.shape)}"
            )
        if self.label is not None and self.label.shape != self.desc.shape[:1]:
            raise UserError(
                f"label must hold one class for each of the {self.num_points} points, got {tuple(self.label.shape)}"
            )
        if self.teacher is not None and self.teacher.shape[:2] != self.desc.shape[:2]:
            raise UserError(
                f"teacher must describe the same {self.num_points} points and {self.num_views} views, got "
                f"{tuple(self.teacher.shape)}"
            )
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
