"""Smaller descriptors: half precision, eight-bit integers, principal components, sign bits.

What each costs in matching quality is measured by ``perf/experiments/compression.py`` (results/experiments/compression.json).
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchprint.common.errors import UserError
from patchprint.common.types import Features, ModelId
from patchprint.ops.distances import pack_bits

INT8_RANGE = 0.5  # components of 128-dimensional unit vectors hardly ever exceed it


@dataclass(frozen=True, eq=False)
class Pca:
    """Principal components of a collection of descriptors.

    Shape:
        mean (D,), axes (k, D) with orthonormal rows.
    """

    mean: Tensor
    axes: Tensor

    @staticmethod
    def fit(descriptors: Tensor, k: int) -> Pca:
        """Fit the directions of largest variance of descriptors (N, D); N should be a few thousand."""
        if not 1 <= k <= min(descriptors.shape):
            raise UserError(f"{tuple(descriptors.shape)} descriptors have no {k} principal components")
        values = descriptors.double()
        mean = values.mean(0)
        _, vectors = torch.linalg.eigh((values - mean).T @ (values - mean))
        axes = vectors.flip(1)[:, :k].T
        signs = torch.where(axes.gather(1, axes.abs().argmax(1, keepdim=True)) < 0, -1.0, 1.0)
        return Pca(mean.float(), (axes * signs).float().contiguous())

    def apply(self, descriptors: Tensor) -> Tensor:
        """Project descriptors (N, D) to unit vectors (N, k)."""
        return F.normalize((descriptors.float() - self.mean) @ self.axes.T, dim=1)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.mean.numpy().tobytes() + self.axes.numpy().tobytes()).hexdigest()


def sign_bits(descriptors: Tensor, name: str) -> Tensor:
    """Pack the signs of descriptors into bits; ``name`` is the model's, for the error message.

    Shape:
        (N, D) -> (N, D // 8) uint8; zero and negative give bit 0.
    """
    if len(descriptors) and (descriptors >= 0).all():
        raise UserError(f"the descriptors of {name} are never negative, so their signs say nothing")
    return pack_bits(descriptors)


def compress(features: Features, how: str | Pca) -> Features:
    """Make descriptors smaller; their model gets a new name, so that only equal kinds are matched.

    Args:
        how: "fp16" (2 bytes a number, lossless in practice), "int8" (1 byte a number; compare by Euclidean distance, which
            comes out 254 times as large), "bits" (1 bit a number, Hamming distance), or a `Pca` fitted on such descriptors.
    """
    if features.is_binary or not features.descriptors.is_floating_point():
        raise UserError(f"the descriptors of {features.model.name} are compressed already")
    descriptors = features.descriptors.float()
    if isinstance(how, Pca):
        small, tag, extra = how.apply(descriptors), f"pca{len(how.axes)}", how.sha256
    elif how == "fp16":
        small, tag, extra = descriptors.half(), "fp16", ""
    elif how == "int8":
        small, tag, extra = (descriptors * (127 / INT8_RANGE)).round().clamp(-127, 127).to(torch.int8), "int8", ""
    elif how == "bits":
        small, tag, extra = sign_bits(descriptors, features.model.name), "bits", ""
    else:
        raise UserError(f"unknown compression {how!r}; known are fp16, int8, bits and a fitted Pca")
    old = features.model
    sha256 = hashlib.sha256(f"{old.sha256} {extra}".encode()).hexdigest() if extra else old.sha256
    # Quotients of distances stay what they were where all distances shrink alike.
    ratio = features.ratio if tag in ("fp16", "int8") else None
    return dataclasses.replace(features, descriptors=small, model=ModelId(f"{old.name}+{tag}", sha256), ratio=ratio)
