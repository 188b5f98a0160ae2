"""How far matches lie from where the matches around them predict them.

A learned matcher accepts a keypoint close to the right one where the right one was not found again: such matches agree with
their neighbors, and are three to ten pixels off. Around a match a surface is nearly flat, so that the matches of its
neighbors define an affine map, which predicts its place to a pixel.
"""

from __future__ import annotations

import torch
from torch import Tensor

from patchprint.matching.candidate_graph import GraphOptions, nearest_places, or_first

FEWEST = 8  # matches, below which none is judged
PER_PIXEL = 0.03  # what a surface that is not flat adds to an error, of the distance of the neighbors
NEIGHBORS = GraphOptions(neighbors=16)
STEPS, NOISE = 4, 2.0  # reweighted fits; pixels beyond which a neighbor counts little
RIDGE = 1e-3


def local_errors(a: Tensor, b: Tensor, scale: Tensor, score: Tensor) -> Tensor:
    """Compute the error of each match: the smaller one of both directions, in pixels divided by what a surface may add.

    Shape:
        positions a (M, 2), b (M, 2), scale (M, 2) of both keypoints, score (M,) probabilities -> (M,); zeros below `FEWEST`.
    """
    if len(a) < FEWEST:
        return torch.zeros(len(a), device=a.device)
    there, back = _errors(a, b, scale[:, 0], score), _errors(b, a, scale[:, 1], score)
    return torch.minimum(there, back)


def _errors(a: Tensor, b: Tensor, scale: Tensor, score: Tensor) -> Tensor:
    neighbor = nearest_places(a, scale, NEIGHBORS)
    index, there = or_first(neighbor), neighbor >= 0
    x, y = (each.double()[index] - each.double()[:, None] for each in (a, b))  # (M, E, 2), from the match
    squared = torch.where(there, x.square().sum(-1), 0)
    reach = squared.amax(1).sqrt().clamp(min=1e-6)
    x = x / reach[:, None, None]
    near = torch.where(there, score.double()[index] * torch.exp(-squared / reach.square()[:, None]), 0)
    weight, noise = near, (reach / 2).clamp(min=4 * NOISE)
    fit, predicted = _fit_affine(x, y, weight)
    for _ in range(STEPS):
        noise = (noise / 2).clamp(min=NOISE)
        off = (x @ fit + predicted[:, None] - y).square().sum(-1)
        weight = near / (1 + off / noise.square()[:, None]).square()
        fit, predicted = _fit_affine(x, y, weight)
    total = weight.sum(1).clamp(min=1e-9)
    spread = ((weight * y.square().sum(-1)).sum(1) / total).sqrt()
    return (predicted.square().sum(-1).sqrt() / (1 + PER_PIXEL * spread)).float()


def _fit_affine(x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Fit ``y = x @ fit + predicted``: x (M, E, 2), y (M, E, 2), weight (M, E) -> fit (M, 2, 2), predicted (M, 2)."""
    total = weight.sum(1).clamp(min=1e-9)[:, None]
    middle_x, middle_y = ((weight[..., None] * each).sum(1) / total for each in (x, y))
    from_x, from_y = x - middle_x[:, None], y - middle_y[:, None]
    weighted = (weight[..., None] * from_x).transpose(1, 2)
    (p, q), (_, r) = (weighted @ from_x).permute(1, 2, 0)
    p, r = p + RIDGE, r + RIDGE
    inverse = torch.stack([torch.stack([r, -q], -1), torch.stack([-q, p], -1)], 1) / (p * r - q * q)[:, None, None]
    fit = inverse @ (weighted @ from_y)
    return fit, middle_y - (middle_x[:, None] @ fit)[:, 0]
