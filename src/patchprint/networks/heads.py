"""From the raw vector of a trunk to the print: unit length, or signs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from patchprint.common.errors import UserError


def unit_length(raw: Tensor) -> Tensor:
    """Divide by the L2 norm, with 1e-10 under the root, in float32.

    Shape:
        (..., D) -> (..., D). A zero vector stays zero.
    """
    wide = raw if raw.dtype == torch.float64 else raw.float()
    return wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-10)


def signs(raw: Tensor) -> Tensor:
    """+1 where positive, -1 elsewhere: zero counts as -1.

    Shape:
        (..., D) -> (..., D), same dtype.
    """
    return torch.where(raw > 0, 1.0, -1.0).to(raw.dtype)


class FloatHead(nn.Module):
    """Unit vectors. With ``parts`` > 1 the raw vector is cut into that many pieces, each brought to unit length and
    divided by sqrt(parts), so that the whole has unit length too (centre-surround).

    Shape:
        (N, D) -> (N, D) float32.
    """

    def __init__(self, parts: int = 1) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, raw: Tensor) -> Tensor:
        if self.parts == 1:
            return unit_length(raw)
        pieces = unit_length(raw.unflatten(-1, (self.parts, -1)))
        return pieces.flatten(-2) / self.parts**0.5


class BinaryHead(nn.Module):
    """tanh brought to unit length in training, signs / sqrt(D) in evaluation, so that the dot product of two prints
    is 1 - 2 * Hamming / D.

    Shape:
        (N, D) -> (N, D) float32.
    """

    def forward(self, raw: Tensor) -> Tensor:
        if self.training:
            return unit_length(torch.tanh(raw))
        return signs(raw) / raw.shape[-1] ** 0.5


def create_head(kind: str, dim: int, parts: int = 1) -> nn.Module:
    """The head for ``kind`` "float" or "binary"."""
    if kind == "float":
        return FloatHead(parts)
    if kind != "binary":
        raise UserError(f"a network's kind is 'float' or 'binary', not {kind!r}")
    if dim % 8:
        raise UserError(f"a binary network needs a dimension that is a multiple of 8, not {dim}")
    return BinaryHead()
