"""The threshold of the ratio test for one model, chosen where right and wrong matches part best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from patchprint.errors import UserError
from patchprint.features.matching import match
from patchprint.features.nearest import nearest
from patchprint.types import Features

MAX_ERROR = 3.0  # pixels


@dataclass(frozen=True)
class RatioChoice:
    """A threshold, and the parts of right and of wrong mutual neighbours that pass it."""

    ratio: float
    right_kept: float
    wrong_kept: float


def choose_ratio(pairs: Iterable[tuple[Features, Features, Tensor]]) -> RatioChoice:
    """The threshold in steps of 0.01 that keeps most right and fewest wrong matches (largest difference of the two rates).

    Args:
        pairs: features of two pictures, and where each keypoint of the first truly lies in the second, (N, 2), nan where
            that is unknown or outside.
    """
    quotients, rights = [], []
    for a, b, truth in pairs:
        rows, columns = match(a, b).indices.unbind(1)
        known = torch.isfinite(truth[rows]).all(1)
        rows, columns = rows[known], columns[known]
        distance, _ = nearest(a.descriptors[rows], b.descriptors, 2)
        quotients.append(distance[:, 0] / distance[:, 1].clamp(min=1e-9))
        rights.append((b.keypoints.xy[columns] - truth[rows]).norm(dim=1) <= MAX_ERROR)
    quotient, right = torch.cat(quotients), torch.cat(rights)
    if not right.any() or right.all():
        raise UserError("a ratio cannot be chosen: the matches are all right or all wrong; give other pairs")
    candidates = [RatioChoice(percent / 100, *_kept(quotient < percent / 100, right)) for percent in range(50, 101)]
    return max(candidates, key=lambda choice: choice.right_kept - choice.wrong_kept)


def _kept(passing: Tensor, right: Tensor) -> tuple[float, float]:
    return round(float(passing[right].float().mean()), 4), round(float(passing[~right].float().mean()), 4)
